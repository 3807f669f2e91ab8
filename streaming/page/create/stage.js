// Where it appears: the preview while it is made, then the picture, or the clip as it plays.

import { el } from "../dom.js";

const EXAMPLES = { picture: ["a happy pumpkin", "a blue car", "a red apple"], clip: ["a rocket flying up", "a spinning soccer ball", "a bouncing frog"] };

export class Stage {
  /** `onExample(prompt, kind)` when the reader takes a suggestion. */
  constructor(kinds, onExample) {
    const suggested = kinds.flatMap((kind) => EXAMPLES[kind].map((text) => [text, kind]));
    this.opening = el(
      "div",
      { class: "stage-opening" },
      el("h1", {}, "Say what to make."),
      el("p", {}, "Try ", ...suggested.flatMap(([text, kind], index) => [
        index > 0 ? ", " : null,
        el("button", { type: "button", class: "plain-button", on: { click: () => onExample(text, kind) } }, text),
      ]), "."),
    );
    this.picture = el("img", { hidden: true });
    this.video = el("video", { hidden: true, loop: true, muted: true, autoplay: true, playsInline: true, controls: true });
    this.bar = el("progress", { class: "bar", max: 1, "aria-label": "Progress", hidden: true });
    this.note = el("p", { class: "hint", role: "status" });
    this.node = el("div", { class: "easel" }, this.opening, el("div", { class: "frame", hidden: true }, this.picture, this.video), this.bar, this.note);
    this.frame = this.node.children[1];
    this.video.addEventListener("error", () => this.made?.kind === "clip" && this.showStill());
  }

  begin(prompt) {
    this.opening.hidden = true;
    this.frame.hidden = false;
    this.frame.classList.add("unfinished");
    this.bar.hidden = false;
    this.bar.removeAttribute("value");
    this.note.textContent = "";
    this.prompt = prompt;
  }

  told({ fraction, preview }) {
    if (preview) this.showPicture(preview);
    else if (fraction === null) this.bar.removeAttribute("value");
    else if (fraction !== undefined) this.bar.value = fraction;
  }

  showPicture(url) {
    this.video.hidden = true;
    this.video.removeAttribute("src");
    this.picture.hidden = false;
    this.picture.src = url;
    this.picture.alt = this.prompt;
  }

  show(made, prompt) {
    this.prompt = prompt;
    this.made = made;
    this.end();
    this.opening.hidden = true;
    this.frame.hidden = false;
    if (made.kind === "picture") return this.showPicture(made.url);
    this.picture.hidden = true;
    this.video.hidden = false;
    this.video.setAttribute("aria-label", prompt);
    this.video.src = made.url;
  }

  /** A browser without H.264 shows a frame of the clip, and says why. */
  showStill() {
    this.showPicture(this.made.still);
    this.note.textContent = "This browser can't play H.264; here is the middle of the clip.";
  }

  end() {
    this.bar.hidden = true;
    this.frame.classList.remove("unfinished");
    this.note.textContent = "";
  }
}
