// One recording in full: how far it is, the player, who speaks, every word, and its downloads.

import { el } from "../dom.js";
import { clock, indexAt, paragraphs, speakers } from "./paragraphs.js";
import { Player } from "./player.js";
import { FORMATS } from "./server.js";

const TONES = 6;

export class Transcript {
  /** `onDownload(recording, format)` fetches and saves; it rejects with what went wrong. `onList()`
   *  is for screens so narrow that the list of recordings lies below the text. */
  constructor({ onDownload, onList }) {
    this.onDownload = onDownload;
    this.list = el("button", { type: "button", class: "plain-button to-list", on: { click: onList } }, "All recordings");
    this.title = el("h1", {});
    this.about = el("p", { class: "about" });
    this.bar = el("progress", { class: "bar", max: 1, "aria-label": "Progress" });
    this.player = new Player({
      onTime: (seconds) => this.light(seconds),
      onFile: (file) => this.attach(file),
    });
    this.legend = el("ul", { class: "speakers", "aria-label": "Speakers" });
    this.text = el("div", { class: "paragraphs" });
    this.saves = el("div", { class: "saves", role: "group", "aria-label": "Download" });
    this.node = el("article", { class: "transcript" }, this.list, this.title, this.about, this.bar, this.player.node, this.legend, this.saves, this.text);
    this.text.addEventListener("click", ({ target }) => this.clicked(target));
    this.made();
  }

  made() {
    this.saves.append(
      ...FORMATS.map(([format, label]) =>
        el("button", { type: "button", class: "plain-button", on: { click: () => this.save(format) } }, label),
      ),
    );
  }

  /** Shows `recording`, or what is new of it. */
  show(recording) {
    const other = this.recording !== recording;
    this.recording = recording;
    const { name, state, fraction, result, error } = recording;
    this.title.textContent = name;
    this.bar.hidden = !["uploading", "queued", "running"].includes(state);
    if (state === "queued" || fraction === null) this.bar.removeAttribute("value");
    else this.bar.value = fraction;
    this.about.textContent = about(recording);
    this.about.classList.toggle("bad", state === "failed");
    if (error) this.about.textContent = `It failed: ${error}`;
    for (const part of [this.player.node, this.legend, this.saves]) part.hidden = !result;
    if (result && (other || this.shown !== result)) this.showResult(result);
    else if (!result) this.showHeard(recording.heard);
    if (result) this.showPlayer();
  }

  showResult(result) {
    this.shown = result;
    this.parts = paragraphs(result.segments);
    const known = speakers(this.parts);
    this.tones = new Map(known.map(([speaker], index) => [speaker, index % TONES]));
    this.legend.replaceChildren(
      ...known.map(([speaker, seconds]) => el("li", { "data-tone": this.tone(speaker) }, el("b", {}, speakerName(speaker)), clock(seconds))),
    );
    this.words = [];
    this.text.replaceChildren(...this.parts.map((part) => this.paragraph(part)));
    this.starts = this.words.map(({ startS }) => startS);
    this.lit = null;
    if (this.words.length === 0) this.text.replaceChildren(el("p", { class: "about" }, "No speech was found in it."));
  }

  tone(speaker) {
    return this.tones.get(speaker) ?? 0;
  }

  showPlayer() {
    const { file, result } = this.recording;
    const turns = this.parts.map(({ speaker, startS, words }) => ({ speaker, start: startS, end: words.at(-1).endS }));
    this.player.show({ file, durationS: result.duration, turns, tone: (speaker) => this.tone(speaker) });
  }

  paragraph({ speaker, startS, words }) {
    const said = el("p", {});
    for (const word of words) {
      const span = el("span", { class: "w" }, word.text);
      span.dataset.at = word.startS;
      this.words.push({ ...word, span });
      said.append(span, " ");
    }
    const start = el("button", { type: "button", class: "start", "aria-label": `Play from ${clock(startS)}` }, clock(startS));
    start.dataset.at = startS;
    const who = speaker === null ? null : el("b", {}, speakerName(speaker));
    return el("section", { class: "paragraph", "data-tone": this.tone(speaker) }, el("div", { class: "who" }, who, start), said);
  }

  showHeard(chunks) {
    this.shown = null;
    this.text.replaceChildren(
      ...chunks.map(({ start, text }) =>
        el("section", { class: "paragraph heard" }, el("div", { class: "who" }, start === null ? "" : clock(start)), el("p", {}, text)),
      ),
    );
  }

  clicked(target) {
    const at = target.closest("[data-at]")?.dataset.at;
    if (at !== undefined) this.player.moveTo(Number(at), true);
  }

  /** Lights the word that is said at `seconds`, and keeps it in sight while it plays. */
  light(seconds) {
    if (!this.starts || !this.shown) return;
    const found = this.words[indexAt(this.starts, seconds + 0.02)];
    const word = found && (seconds <= found.endS + 0.3) && this.player.file ? found.span : null;
    if (word === this.lit) return;
    this.lit?.classList.remove("lit");
    word?.classList.add("lit");
    this.lit = word;
    if (word && !this.player.audio.paused) this.follow(word);
  }

  follow(word) {
    const { top, bottom } = word.getBoundingClientRect();
    if (bottom > window.innerHeight - 60 && top < window.innerHeight + 200) {
      word.scrollIntoView({ block: "center", behavior: "smooth" });
    }
  }

  attach(file) {
    this.recording.file = file;
    this.showPlayer();
    this.player.button.focus();
  }

  save(format) {
    const failed = (error) => {
      this.about.textContent = `It could not be downloaded: ${error.message}`;
    };
    this.onDownload(this.recording, format).catch(failed);
  }

  close() {
    this.player.release();
  }
}

export const speakerName = (speaker) => (/^[A-Z]$/.test(speaker) ? `Speaker ${speaker}` : speaker);

const percent = (fraction) => `${Math.round(100 * fraction)} %`;

/** A recording's state in words. */
export function about({ state, fraction, result }) {
  if (state === "uploading") return `Uploading, ${percent(fraction)}.`;
  if (state === "queued") return "Waiting for its turn.";
  if (state === "running") return fraction ? `Listening, ${percent(fraction)}.` : "Listening.";
  if (state === "cancelled") return "Stopped.";
  if (state !== "completed" || !result) return "";
  const language = result.language ? ` in ${new Intl.DisplayNames("en", { type: "language" }).of(result.language)}` : "";
  return `${clock(result.duration)}${language}.`;
}
