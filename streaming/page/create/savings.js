// Beside what was made: what its savings won, and, measured on request, what each of them cost.

import { el } from "../dom.js";
import { likeness } from "./likeness.js";

const share = (part, whole) => `${Math.round((100 * part) / whole)} %`;
const took = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

/** [[label, value]] of what the server told of a made thing. */
export function facts({ meta, size, seconds }) {
  const rows = [["Seed", String(meta.seed)], ["Steps", String(meta.steps)], ["Size", seconds ? `${size}, ${seconds} s` : size], ["Time", took(meta.ms)]];
  if (meta.rows_saved) rows.push(["Denoiser rows saved", `${meta.rows_saved} of ${meta.rows_total}`]);
  if (meta.blocks_saved) rows.push(["Blocks saved", `${meta.blocks_saved} of ${meta.blocks_total}`]);
  return rows;
}

/** The variants to measure of a request: nothing saved, each saving alone, all together. */
export function variants(request) {
  const { guidance_skip: skip, cache, ...rest } = request;
  const skips = skip.interval[0] > 0 || skip.interval[1] < 1;
  const full = { ...rest, guidance_skip: { interval: [0, 1] }, cache: false };
  const list = [["Nothing saved", full]];
  if (skips) list.push(["Guidance skipped", { ...full, guidance_skip: skip }]);
  if (cache) list.push(["Blocks reused", { ...full, cache }]);
  if (skips && cache) list.push(["Both", request]);
  return list;
}

export class Savings {
  /** `make(request)` makes a variant; `onKeepSeed(seed)` when the reader wants it again. */
  constructor({ make, onKeepSeed }) {
    this.make = make;
    this.facts = el("dl", { class: "made-facts" });
    this.keep = el("button", { type: "button", class: "plain-button", on: { click: () => onKeepSeed(this.made.meta.seed) } }, "Keep this seed");
    this.measure = el("button", { type: "button", class: "plain-button", on: { click: () => this.run() } }, "Measure what each saving cost");
    this.rows = el("tbody", {});
    const heads = ["", "Rows", "Blocks", "Time", "Likeness"];
    this.table = el("table", { class: "costs", hidden: true }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), this.rows);
    this.note = el("p", { class: "hint", role: "status" });
    this.node = el("section", { class: "savings", "aria-label": "What it took", hidden: true }, el("div", { class: "beside" }, this.facts, el("div", { class: "acts" }, this.keep, this.measure)), this.table, this.note);
  }

  show(made, request) {
    Object.assign(this, { made, request });
    this.node.hidden = false;
    this.table.hidden = true;
    this.note.textContent = "";
    this.measure.hidden = variants(request).length < 2;
    this.facts.replaceChildren(...facts(made).map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd", {}, value))));
  }

  /** Makes the same with the same seed, saving nothing and saving each, and lays them side by side. */
  async run() {
    const { made, request } = this;
    this.measure.hidden = true;
    this.table.hidden = false;
    this.rows.replaceChildren();
    let full = null;
    try {
      for (const [label, fields] of variants({ ...request, seed: made.meta.seed })) {
        this.note.textContent = `Making it again: ${label.toLowerCase()}.`;
        const one = await this.make(fields);
        if (this.made !== made) return;
        full ??= one;
        await this.row(label, one, full);
      }
      this.note.textContent = "Likeness is the PSNR to the one with nothing saved, of the same seed; above 40 dB a difference is hard to see.";
    } catch (error) {
      if (error.name !== "AbortError") this.note.textContent = error.message;
    }
  }

  async row(label, made, full) {
    const { meta, still, url } = made;
    const like = made === full ? null : await likeness(made.compared, full.compared);
    const cells = [
      meta.rows_total ? share(meta.rows_total - meta.rows_saved, meta.rows_total) : "all",
      meta.blocks_total ? share(meta.blocks_total - meta.blocks_saved, meta.blocks_total) : "100 %",
      took(meta.ms),
      like === null ? "itself" : Number.isFinite(like) ? `${like.toFixed(1)} dB` : "the same",
    ];
    this.rows.append(
      el("tr", {}, el("th", { scope: "row" }, el("img", { src: still ?? url, alt: "" }), label), ...cells.map((text) => el("td", {}, text))),
    );
  }
}
