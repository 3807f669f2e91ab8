// The key view: a server with keys tells nothing until it is given one.

import { el } from "../dom.js";
import { storedKey } from "../voice/client.js";

export const id = "key";
export const title = "Key";

/** Shows the view in `place`; the function that comes back takes it away again. */
export function mount({ main }) {
  const wrong = storedKey.get() !== "";
  const key = el("input", { type: "password", "aria-label": "API key", autocomplete: "off" });
  const submit = (event) => {
    event.preventDefault();
    storedKey.set(key.value.trim());
  };
  main.append(
    el(
      "div",
      { class: "key-view" },
      el("h1", {}, wrong ? "That key was not accepted." : "This server asks for a key."),
      el("p", { class: "lead" }, "It stays in this tab and is forgotten when you close it."),
      el("form", { on: { submit } }, key, el("button", { type: "submit", class: "solid" }, "Use this key")),
    ),
  );
  key.focus();
  return () => {};
}
