// Plays a recording: a button, the time, and a strip of who speaks when that is also the slider.

import { el, icon } from "../dom.js";
import { clock } from "./paragraphs.js";

const NS = "http://www.w3.org/2000/svg";

export class Player {
  /** `onTime(seconds)` is called as it plays and when it is moved; `onFile(file)` for a chosen one. */
  constructor({ onTime, onFile }) {
    this.onTime = onTime;
    this.audio = el("audio", { preload: "metadata" });
    this.button = el("button", { type: "button", class: "play", "aria-label": "Play" }, icon("play"));
    this.seek = el("input", { type: "range", class: "seek", min: 0, max: 1, step: 0.1, value: 0, "aria-label": "Position" });
    this.strip = document.createElementNS(NS, "svg");
    this.strip.setAttribute("preserveAspectRatio", "none");
    this.strip.setAttribute("aria-hidden", "true");
    this.time = el("span", { class: "clock" });
    this.note = el("p", { class: "player-note", hidden: true });
    this.chosen = el("input", { type: "file", accept: "audio/*,video/*", hidden: true });
    this.choose = el("button", { type: "button", class: "plain-button", on: { click: () => this.chosen.click() } }, "Choose its file to listen");
    this.row = el("div", { class: "player-row" }, this.button, el("div", { class: "track" }, this.strip, this.seek), this.time);
    this.node = el("div", { class: "player" }, this.row, this.note, this.choose, this.chosen);
    this.url = null;
    this.listen(onFile);
  }

  listen(onFile) {
    this.chosen.addEventListener("change", () => this.chosen.files[0] && onFile(this.chosen.files[0]));
    this.button.addEventListener("click", () => this.toggle());
    this.seek.addEventListener("input", () => this.moveTo(Number(this.seek.value)));
    for (const type of ["play", "pause", "ended"]) this.audio.addEventListener(type, () => this.showState());
    this.audio.addEventListener("loadedmetadata", () => this.setLength(this.audio.duration));
    this.audio.addEventListener("seeked", () => this.tell());
    this.audio.addEventListener("error", () => this.url && this.refuse());
  }

  /** Shows a recording: its length and turns [{speaker, start, end}], and its file if it is here. */
  show({ file, durationS, turns, tone }) {
    this.draw(turns, durationS, tone);
    this.setLength(durationS);
    if (file === this.file) return;
    this.release();
    this.file = file;
    if (file) {
      this.url = URL.createObjectURL(file);
      this.audio.src = this.url;
    }
    this.row.hidden = !file;
    this.choose.hidden = Boolean(file);
    this.note.hidden = true;
    this.tell();
  }

  setLength(seconds) {
    if (!Number.isFinite(seconds) || seconds <= 0) return;
    this.lengthS = seconds;
    this.seek.max = seconds;
    this.tell();
  }

  draw(turns, durationS, tone) {
    const length = durationS || 1;
    this.strip.setAttribute("viewBox", `0 0 ${length} 1`);
    const paths = new Map();
    for (const { speaker, start, end } of turns) {
      paths.set(speaker, `${paths.get(speaker) ?? ""}M${start} 0H${end}V1H${start}Z`);
    }
    this.strip.replaceChildren(
      ...[...paths].map(([speaker, d]) => {
        const path = document.createElementNS(NS, "path");
        path.setAttribute("d", d);
        path.dataset.tone = tone(speaker);
        return path;
      }),
    );
  }

  async toggle() {
    if (!this.audio.paused) return this.audio.pause();
    await this.audio.play().catch(() => this.refuse());
  }

  /** Moves to a time, and plays from there on if `play`. */
  moveTo(seconds, play = false) {
    if (!this.file) return;
    this.audio.currentTime = seconds;
    if (play && this.audio.paused) this.toggle();
    this.tell(seconds);
  }

  showState() {
    const playing = !this.audio.paused;
    this.button.replaceChildren(icon(playing ? "pause" : "play"));
    this.button.setAttribute("aria-label", playing ? "Pause" : "Play");
    if (playing) this.tick();
  }

  tick() {
    this.tell();
    if (!this.audio.paused) requestAnimationFrame(() => this.tick());
  }

  tell(seconds = this.audio.currentTime) {
    this.seek.value = seconds;
    this.seek.setAttribute("aria-valuetext", `${clock(seconds)} of ${clock(this.lengthS ?? 0)}`);
    this.time.textContent = `${clock(seconds)} / ${clock(this.lengthS ?? 0)}`;
    this.onTime(seconds);
  }

  refuse() {
    this.note.textContent = "This browser can't play this file. The transcript is complete all the same.";
    this.note.hidden = false;
    this.row.hidden = true;
  }

  release() {
    this.audio.pause();
    this.audio.removeAttribute("src");
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = null;
  }
}
