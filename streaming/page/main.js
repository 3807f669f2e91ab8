// Starts the page: asks the server what it runs, shows the views that apply, and switches them.

import { authorization } from "./voice/client.js";
import { el } from "./dom.js";
import * as create from "./views/create.js";
import * as key from "./views/key.js";
import * as talk from "./views/talk.js";
import * as transcribe from "./views/transcribe.js";
import * as watch from "./views/watch.js";

// A view is a module with `id`, `title`, `applies(pipelines)` and `mount(place) -> unmount()`,
// where `place` is {main, tools, pipelines}. A new one is added to this list.
const VIEWS = [talk, transcribe, create, watch];

/** The pipelines that the server runs; empty where it won't say, null where it wants a key first. */
async function pipelines() {
  try {
    const answer = await fetch("/v1/status", { headers: authorization() });
    if (answer.status === 401) return null;
    return answer.ok ? (await answer.json()).pipelines : [];
  } catch {
    return [];
  }
}

function navigation(views, current) {
  const nav = document.getElementById("views");
  nav.hidden = views.length < 2;
  nav.replaceChildren(
    ...views.map((view) =>
      el(
        "a",
        { href: `#${view.id}`, "aria-current": view === current ? "page" : undefined },
        view.title,
      ),
    ),
  );
}

async function start() {
  const main = document.getElementById("main");
  const tools = document.getElementById("tools");
  let known = null;
  let views = [];
  let view = null;
  let unmount = () => {};
  const look = async () => {
    known = await pipelines();
    views = known === null ? [key] : VIEWS.filter((one) => one.applies(known));
    if (views.length === 0) views.push(VIEWS[0]);
  };
  const show = () => {
    view = views.find((one) => `#${one.id}` === location.hash) ?? views[0];
    unmount();
    main.replaceChildren();
    tools.replaceChildren();
    navigation(views, view);
    document.title = `${view.title} · Motet`;
    unmount = view.mount({ main, tools, pipelines: known });
  };
  window.addEventListener("hashchange", () => location.hash !== "#main" && show());
  // A view that is at work asks for the key itself, and keeps what it shows until one is accepted.
  window.addEventListener("motet-key", async () => {
    await look();
    if (view === key || (known && !views.includes(view))) show();
    else if (known) navigation(views, view);
  });
  window.addEventListener("motet-locked", async () => {
    await look();
    show();
  });
  await look();
  show();
}

start();
