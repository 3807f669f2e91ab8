// What the reader may say of the next files: their language, and whether speakers are told apart.

import { el } from "../dom.js";

const LANGUAGES = "ar cs da de el en es fi fr he hi hu id it ja ko nl no pl pt ro ru sv tr uk vi zh".split(" ");
const MOST_SPEAKERS = 8;

export class Options {
  constructor() {
    const names = new Intl.DisplayNames("en", { type: "language" });
    const sorted = LANGUAGES.map((code) => [code, names.of(code)]).sort(([, a], [, b]) => a.localeCompare(b));
    this.language = el(
      "select",
      { "aria-label": "Language" },
      el("option", { value: "" }, "Any language"),
      ...sorted.map(([code, name]) => el("option", { value: code }, name)),
    );
    const counts = Array.from({ length: MOST_SPEAKERS - 1 }, (_, index) => index + 2);
    this.speakers = el(
      "select",
      { "aria-label": "Speakers" },
      el("option", { value: "find" }, "Find the speakers"),
      ...counts.map((count) => el("option", { value: count }, `${count} speakers`)),
      el("option", { value: "none" }, "Not by speaker"),
    );
    this.node = el("div", { class: "choices" }, this.language, this.speakers);
  }

  get values() {
    const language = this.language.value ? { language: this.language.value } : {};
    const count = Number(this.speakers.value);
    if (this.speakers.value === "none") return language;
    const bounds = count ? { min_speakers: count, max_speakers: count } : {};
    return { ...language, speakers: true, ...bounds };
  }
}
