// The talk view: one button, two voices, the conversation as it is spoken.

import { el, icon } from "../dom.js";
import { storedKey } from "../voice/client.js";
import { Score } from "../voice/score.js";
import { SettingsDrawer } from "../voice/settings-drawer.js";
import { Settings } from "../voice/settings.js";
import { Talk } from "../voice/talk.js";
import { TurnView } from "../voice/turn-view.js";
import { replyText } from "../voice/turns.js";

export const id = "talk";
export const title = "Talk";

const MAX_TURNS = 100;
const STATUS = {
  idle: "",
  connecting: "Connecting",
  listening: "Listening",
  hearing: "Hearing you",
  thinking: "Thinking",
  speaking: "Speaking. Cut in whenever you like.",
};

/** A pipeline with a conversation is there to talk to. */
export function applies(pipelines) {
  return talking(pipelines) !== undefined;
}

const SHOWN = ["asr", "llm", "tts"];

function talking(pipelines) {
  return pipelines.find((one) => one.conversation);
}

/** What runs here, in the names that a pipeline file uses. */
function describe(pipelines) {
  const nodes = talking(pipelines)?.nodes ?? [];
  const used = nodes.map(({ use }) => use).filter((use) => SHOWN.includes(use.split("/")[0]));
  if (used.length === 0) return "";
  return `This server runs ${new Intl.ListFormat("en-GB").format(used)}.`;
}

function opening(pipelines) {
  return el(
    "div",
    { class: "opening" },
    el("h1", {}, "Say something."),
    el(
      "p",
      {},
      "Press Talk and speak as you would to a person. You hear the answer, ",
      "and you can cut in at any time.",
    ),
    el("p", { class: "models" }, describe(pipelines)),
  );
}

class TalkView {
  constructor({ main, tools, pipelines }) {
    this.settings = Settings.load();
    this.talk = new Talk(this.settings);
    this.views = new Map();
    this.announced = new Set();
    this.build(main, tools, pipelines);
    this.listen();
    this.showState("idle");
  }

  build(main, tools, pipelines) {
    this.opening = opening(pipelines);
    this.turns = el("ol", { class: "turns", "aria-label": "Conversation" });
    this.problem = el("div", { class: "problem", role: "alert", hidden: true });
    this.live = el("p", { class: "unseen", "aria-live": "polite" });
    this.canvas = el("canvas", { class: "score", "aria-hidden": "true" });
    this.label = el("span", {}, "Talk");
    this.button = el("button", { class: "talk", type: "button" }, this.label);
    this.status = el("p", { class: "status" });
    this.input = el("input", {
      name: "text",
      autocomplete: "off",
      placeholder: "or type",
      "aria-label": "Type instead of speaking",
      maxLength: 4000,
    });
    this.form = el(
      "form",
      { class: "typing" },
      this.input,
      el("button", { type: "submit", class: "quiet", "aria-label": "Send" }, icon("send")),
    );
    const dock = el(
      "section",
      { class: "dock", "aria-label": "Voice" },
      this.problem,
      el("div", { class: "stage" }, this.canvas, this.button),
      this.status,
      this.form,
    );
    this.root = el(
      "div",
      { class: "talk-view" },
      el("div", { class: "conversation" }, this.opening, this.turns),
      dock,
      this.live,
    );
    main.append(this.root);
    this.drawer = new SettingsDrawer(this.settings, talking(pipelines)?.name, () =>
      this.talk.configure(this.settings),
    );
    tools.append(this.drawer.button);
    this.root.append(this.drawer.dialog);
    this.score = new Score(this.canvas, {
      level: (loudness) => this.button.style.setProperty("--level", loudness.toFixed(3)),
    });
  }

  listen() {
    this.button.addEventListener("click", () => this.toggle());
    this.form.addEventListener("submit", (event) => this.submit(event));
    const on = (type, run) => this.talk.addEventListener(type, ({ detail }) => run(detail));
    on("state", ({ state }) => this.showState(state));
    on("turn", ({ turn }) => this.showTurn(turn));
    on("problem", ({ problem, retryS }) => this.showProblem(problem, retryS));
    on("microphone", ({ pcm }) => this.score.microphone(pcm));
    on("reply", ({ item, pcm }) => this.score.reply(item, pcm));
    on("played", ({ item, playedMs }) => this.score.played(item, playedMs));
    on("cut", () => this.score.cut());
    on("anew", () => this.markAnew());
  }

  toggle() {
    if (this.talk.active) this.talk.stop();
    else this.talk.start();
  }

  submit(event) {
    event.preventDefault();
    const text = this.input.value.trim();
    if (text === "") return;
    this.input.value = "";
    this.talk.say(text);
  }

  showState(state) {
    this.root.dataset.state = state;
    const active = state !== "idle";
    this.root.classList.toggle("open", active);
    this.label.textContent = active ? "End" : "Talk";
    this.button.setAttribute("aria-label", active ? "End the conversation" : "Talk");
    this.status.textContent = STATUS[state];
    if (active) this.score.start();
    else this.score.stop();
  }

  showTurn(turn) {
    const last = document.documentElement;
    const atEnd = last.scrollHeight - last.scrollTop - last.clientHeight < 120;
    const view = this.views.get(turn.id) ?? this.addTurn(turn);
    if (turn.dropped) this.forget(turn.id);
    else {
      view.update(turn);
      this.announce(turn);
    }
    this.opening.hidden = this.views.size > 0;
    if (atEnd) last.scrollTop = last.scrollHeight;
  }

  addTurn(turn) {
    const view = new TurnView();
    this.views.set(turn.id, view);
    if (this.views.size > MAX_TURNS) this.forget(this.views.keys().next().value);
    this.turns.append(view.node);
    return view;
  }

  forget(turn) {
    this.views.get(turn).node.remove();
    this.views.delete(turn);
  }

  /** Reads whole sentences to a screen reader, once each, instead of every partial word. */
  announce({ id: turn, user, reply }) {
    const say = (key, text) => {
      if (this.announced.has(key)) return;
      this.announced.add(key);
      this.live.textContent = text;
    };
    if (user?.final && user.text) say(`${turn}/you`, `You: ${user.text}`);
    if (reply?.status === "completed") say(`${turn}/reply`, `Motet: ${replyText(reply)}`);
  }

  markAnew() {
    this.turns.append(
      el("li", { class: "anew" }, "Reconnected. The server starts afresh and remembers nothing above."),
    );
  }

  showProblem(problem, retryS) {
    this.problem.hidden = problem === null;
    if (problem === null) return;
    const { title: heading, text, detail, action, asksKey } = problem.words;
    const key = el("input", { type: "password", "aria-label": "API key", autocomplete: "off" });
    const act = () => {
      if (asksKey) storedKey.set(key.value.trim());
      this.talk.again();
    };
    const form = el(
      "form",
      { on: { submit: (event) => (event.preventDefault(), act()) } },
      asksKey ? key : null,
      action ? el("button", { type: "submit", class: "solid" }, action) : null,
    );
    const waiting = retryS ? `Trying again in ${retryS} s.` : "";
    this.problem.replaceChildren(
      el("h2", {}, heading),
      el("p", {}, [text, waiting].filter(Boolean).join(" ")),
      detail ? el("p", { class: "detail" }, detail) : "",
      form,
    );
    if (asksKey) key.focus();
  }

  close() {
    this.talk.stop();
    this.score.close();
  }
}

/** Shows the view in `place`; the function that comes back takes it away again. */
export function mount(place) {
  const view = new TalkView(place);
  return () => view.close();
}
