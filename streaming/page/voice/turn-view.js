// One turn on the page: what was said, what was answered, and where its milliseconds went.

import { el } from "../dom.js";
import { timingsPicture } from "./timings.js";
import { replyText, spokenLength } from "./turns.js";

const ENDINGS = {
  cancelled: "cut off",
  failed: "failed",
  incomplete: "stopped short",
};

export class TurnView {
  constructor() {
    this.said = el("p", { class: "said" });
    this.reply = el("p", { class: "reply" });
    this.note = el("p", { class: "note" });
    this.aside = el("div", { class: "turn-time" });
    this.words = [];
    this.pictured = "";
    this.node = el(
      "li",
      { class: "turn" },
      el("div", { class: "turn-text" }, this.said, this.reply, this.note),
      this.aside,
    );
  }

  update(turn) {
    this.updateSaid(turn.user);
    if (turn.reply) this.updateReply(turn.reply);
    this.updateTimings(turn);
  }

  updateSaid(user) {
    this.said.hidden = user === null;
    if (user === null) return;
    this.said.classList.toggle("partial", !user.final);
    const text = user.failed ? "That could not be transcribed." : user.text || "…";
    if (this.said.textContent !== text) this.said.textContent = text;
  }

  updateReply(reply) {
    const text = replyText(reply);
    const parts = text.match(/\s*\S+/g) ?? [];
    parts.forEach((part, index) => this.word(part, index));
    let at = 0;
    const spoken = spokenLength(reply);
    for (const [index, node] of this.words.entries()) {
      const start = at + parts[index].search(/\S/);
      at += parts[index].length;
      node.classList.toggle("unsaid", start >= spoken);
      node.hidden = reply.cut !== null && start >= spoken;
    }
    this.note.textContent = this.ending(reply);
  }

  word(part, index) {
    if (!this.words[index]) {
      this.words[index] = el("span", { class: "word unsaid" });
      this.reply.append(this.words[index]);
    }
    if (this.words[index].textContent !== part) this.words[index].textContent = part;
  }

  ending(reply) {
    if (reply.error) return reply.error;
    if (reply.cut !== null) return ENDINGS.cancelled;
    const called = reply.calls.length > 0 ? `asked for ${reply.calls.join(", ")}` : "";
    return ENDINGS[reply.status] ?? called;
  }

  updateTimings(turn) {
    const key = `${turn.timings?.total_ms}/${turn.heardMs}`;
    if (!turn.timings || key === this.pictured) return;
    this.pictured = key;
    this.aside.replaceChildren(timingsPicture(turn) ?? "");
  }
}
