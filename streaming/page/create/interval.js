// A slider with two handles over the steps of a run: where guidance acts.

import { el } from "../dom.js";

// Fractions are multiplied back to steps on the server; this keeps 7/30*30 from being 6.
const NUDGE = 1e-6;

export class Interval {
  /** `onChange()` is called as a handle moves. */
  constructor(onChange = () => {}) {
    this.onChange = onChange;
    const handle = (name, label) => el("input", { type: "range", name, min: 0, step: 1, "aria-label": label, on: { input: () => this.moved(name) } });
    this.low = handle("guidanceFrom", "Guidance acts from");
    this.high = handle("guidanceTo", "Guidance acts until");
    this.ticks = el("div", { class: "ticks", "aria-hidden": "true" });
    this.said = el("output", {});
    this.node = el("div", { class: "field interval", role: "group", "aria-label": "Guidance over the steps" }, el("span", {}, "Guidance over the steps"), el("div", { class: "rail" }, this.ticks, this.low, this.high), this.said);
    this.steps = 0;
    this.setSteps(30);
  }

  /** The number of steps that the handles move over; they keep their share. */
  setSteps(steps) {
    if (steps === this.steps) return;
    const [from, to] = this.steps ? [this.low.value / this.steps, this.high.value / this.steps] : [0, 1];
    this.steps = steps;
    for (const [handle, share] of [[this.low, from], [this.high, to]]) {
      handle.max = steps;
      handle.value = Math.round(share * steps);
    }
    this.ticks.replaceChildren(...Array.from({ length: steps }, () => el("i")));
    this.show();
  }

  moved(name) {
    const [low, high] = [Number(this.low.value), Number(this.high.value)];
    if (low > high) {
      if (name === "guidanceFrom") this.low.value = high;
      else this.high.value = low;
    }
    this.show();
    this.onChange();
  }

  show() {
    const [low, high] = [Number(this.low.value), Number(this.high.value)];
    [...this.ticks.children].forEach((tick, step) => tick.classList.toggle("on", step >= low && step < high));
    // The handle that can still move lies above where both meet.
    this.low.classList.toggle("above", low > this.steps / 2);
    const acting = high - low;
    if (acting === this.steps) this.said.textContent = `All ${this.steps} steps: nothing is skipped.`;
    else if (acting === 0) this.said.textContent = "No step is guided.";
    else this.said.textContent = `Steps ${low + 1} to ${high} of ${this.steps}; the other ${this.steps - acting} cost half.`;
    this.low.setAttribute("aria-valuetext", `step ${low + 1}`);
    this.high.setAttribute("aria-valuetext", `step ${high}`);
  }

  /** [start, stop] in fractions of the steps, as the server takes them. */
  get value() {
    const share = (handle) => Math.min(1, (Number(handle.value) + NUDGE) / this.steps);
    return [Number(this.low.value) === 0 ? 0 : share(this.low), share(this.high)];
  }
}
