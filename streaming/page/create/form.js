// What to make and how: the words, the seed, the steps, and the savings.

import { el } from "../dom.js";
import { Interval } from "./interval.js";

const KINDS = { picture: "A picture", clip: "A clip" };

function field(label, control, hint) {
  const note = typeof hint === "string" ? el("small", {}, hint) : hint;
  return el("label", { class: "field" }, el("span", {}, label), control, note);
}

export class Form {
  /** `onMake()` when the reader wants it made, or stopped where something is being made. */
  constructor(kinds, onMake) {
    this.prompt = el("textarea", { name: "prompt", rows: 3, required: true, maxLength: 2000, placeholder: "a happy pumpkin", "aria-label": "What to make" });
    this.kind = el("div", { class: "kinds", role: "radiogroup", "aria-label": "Kind", hidden: kinds.length < 2 }, ...kinds.map((kind, index) => this.radio(kind, index === 0)));
    this.button = el("button", { type: "submit", class: "solid" }, "Make it");
    this.head = el("form", { class: "make" }, this.prompt, this.kind, this.button);
    this.head.addEventListener("submit", (event) => {
      event.preventDefault();
      onMake();
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      this.head.requestSubmit();
    });
    this.only = kinds[0];
    this.build();
  }

  radio(kind, checked) {
    return el("label", {}, el("input", { type: "radio", name: "kind", value: kind, checked }), el("span", {}, KINDS[kind]));
  }

  build() {
    const number = (name, props) => el("input", { name, type: "number", inputMode: "numeric", ...props });
    this.seed = number("seed", { min: 0, max: 2 ** 53 - 1, step: 1, placeholder: "Random" });
    this.steps = number("steps", { min: 1, max: 200, step: 1, placeholder: "The model's own" });
    this.size = el("input", { name: "size", placeholder: "The model's own", pattern: "[0-9]{2,5}x[0-9]{2,5}", title: "WIDTHxHEIGHT, as in 96x96", autocomplete: "off" });
    this.guidance = number("guidance", { min: 0, max: 30, step: 0.1, placeholder: "The model's own" });
    this.interval = new Interval();
    this.cache = el("input", { name: "cache", type: "range", min: 0, max: 0.3, step: 0.01, value: 0 });
    this.cacheSaid = el("output", {});
    this.node = el(
      "div",
      { class: "wishes" },
      el("div", { class: "pair" }, field("Seed", this.seed), field("Steps", this.steps)),
      el("div", { class: "pair" }, field("Size", this.size), field("Guidance", this.guidance)),
      this.interval.node,
      field("Reuse of blocks between steps", this.cache, this.cacheSaid),
    );
    this.steps.addEventListener("input", () => this.steps.validity.valid && this.steps.value && this.interval.setSteps(Number(this.steps.value)));
    this.cache.addEventListener("input", () => this.showCache());
    this.showCache();
  }

  showCache() {
    const threshold = Number(this.cache.value);
    this.cacheSaid.textContent = threshold === 0 ? "Off: every block runs." : `While a step changes less than ${Math.round(threshold * 100)} %.`;
  }

  get chosenKind() {
    return this.head.querySelector("input[type=radio]:checked")?.value ?? this.only;
  }

  /** Whether everything that was typed can be sent; tells the reader what can't. */
  get valid() {
    return [this.seed, this.steps, this.size, this.guidance].every((control) => control.reportValidity());
  }

  get values() {
    const number = ({ value }) => (value === "" ? null : Number(value));
    return {
      prompt: this.prompt.value.trim(),
      seed: number(this.seed),
      steps: number(this.steps),
      size: this.size.value,
      guidance: number(this.guidance),
      interval: this.interval.value,
      cache: Number(this.cache.value),
    };
  }

  /** Shows that something is being made, or that nothing is. */
  set making(making) {
    this.button.textContent = making ? "Stop" : "Make it";
    this.button.classList.toggle("stop", making);
  }
}
