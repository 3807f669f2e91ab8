// One conversation with the server: microphone in, speech out, barge-in, reconnects.

import { RealtimeClient } from "./client.js";
import { Microphone } from "./microphone.js";
import { RATE_HZ } from "./pcm.js";
import { MutePlayer, Player } from "./player.js";
import { Problem } from "./problems.js";
import { REACTIONS } from "./reactions.js";
import { SentClock } from "./sent-clock.js";
import { Turns } from "./turns.js";

const RETRY_S = [1, 2, 4, 8, 15];
const MODEL = "voice";

export class Talk extends EventTarget {
  /**
   * Fires "state" (idle, connecting, listening, hearing, thinking, speaking), "turn" {turn},
   * "problem" {problem, retryS}, "microphone" {pcm}, "reply" {item, pcm}, "played" {item, playedMs},
   * "cut" and "anew" (reconnected: the server remembers nothing).
   */
  constructor(settings) {
    super();
    this.settings = settings;
    this.turns = new Turns();
    this.state = "idle";
    this.client = null;
    this.microphone = null;
    this.reset();
  }

  reset() {
    this.opened = false;
    this.attempts = 0;
    this.sent = new SentClock();
    this.silenced = new Set(); // responses that a barge-in cut off
    this.response = null;
    this.waiting = [];
  }

  get active() {
    return this.state !== "idle";
  }

  fire(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  become(state) {
    if (state === this.state) return;
    this.state = state;
    this.fire("state", { state });
  }

  /** Must be called from a click or a key press, or the browser keeps the sound off. */
  async start({ listen = true } = {}) {
    if (this.active) return;
    this.listens = listen;
    this.become("connecting");
    this.fire("problem", { problem: null });
    try {
      if (listen && !window.isSecureContext) throw new Problem("insecure");
      await this.openSound();
      if (listen) await this.openMicrophone();
    } catch (error) {
      this.fail(error instanceof Problem ? error : new Problem("unsupported", String(error)));
      return;
    }
    if (!this.active) return;
    this.connect();
    this.stayAwake();
  }

  /** Keeps a phone's screen on while it is talked to, where the browser can. */
  async stayAwake() {
    const lock = await navigator.wakeLock?.request("screen").catch(() => null);
    if (this.active) this.lock = lock;
    else lock?.release();
  }

  async openSound() {
    if (!window.isSecureContext) {
      this.player = new MutePlayer();
      return;
    }
    if (!window.AudioWorkletNode) throw new Problem("unsupported");
    this.context = new AudioContext({ sampleRate: RATE_HZ, latencyHint: "interactive" });
    await this.context.resume();
    this.player = await Player.open(this.context);
    this.player.addEventListener("started", ({ detail }) => this.started(detail));
    this.player.addEventListener("progress", ({ detail }) => this.played(detail));
    this.player.addEventListener("ended", ({ detail }) => this.ended(detail));
  }

  async openMicrophone() {
    const microphone = await Microphone.open(this.context, {
      onFrame: (pcm) => this.hear(pcm),
      onEnded: () => this.fail(new Problem("microphone-gone")),
    });
    if (this.active) this.microphone = microphone;
    else microphone.close();
  }

  connect() {
    this.client = new RealtimeClient({
      model: MODEL,
      onEvent: (event) => this.receive(event),
      onClose: (problem) => problem && this.lost(problem),
    });
  }

  stop() {
    clearTimeout(this.retry);
    this.client?.close();
    this.microphone?.close();
    this.player?.close();
    this.context?.close();
    this.lock?.release();
    this.lock = this.client = this.microphone = this.player = this.context = null;
    this.reset();
    this.become("idle");
  }

  /** Ends with a problem; what was typed and not sent waits for `again`. */
  fail(problem) {
    const { waiting } = this;
    this.stop();
    this.waiting = waiting;
    this.fire("problem", { problem });
  }

  /** Once more, with or without the microphone as before; at once, if it is waiting to. */
  again() {
    clearTimeout(this.retry);
    if (!this.active) this.start({ listen: this.listens });
    else if (this.client.over) this.connect();
  }

  lost(problem) {
    const retryS = RETRY_S[this.attempts];
    if (problem.code !== "lost" || retryS === undefined || !this.active) {
      this.fail(problem);
      return;
    }
    this.attempts += 1;
    this.opened = false;
    this.interrupt();
    this.response = null;
    this.become("connecting");
    this.fire("problem", { problem, retryS });
    this.retry = setTimeout(() => this.connect(), retryS * 1000);
  }

  configure(settings) {
    this.settings = settings;
    const session = settings.session({ spoken: this.player?.audible });
    this.client?.send("session.update", { session });
  }

  /** Sends typed text as a turn; opens the conversation without a microphone if there is none. */
  async say(text) {
    if (!this.opened) {
      this.waiting.push(text);
      if (!this.active) await this.start({ listen: false });
      return;
    }
    await this.interrupt();
    if (this.response) this.client.send("response.cancel", { response_id: this.response });
    const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
    this.client.send("conversation.item.create", { item });
    this.client.send("response.create");
    this.become("thinking");
  }

  receive(event) {
    const turn = this.silenced.has(event.response_id) ? null : this.turns.apply(event);
    REACTIONS[event.type]?.(this, event);
    if (turn) this.fire("turn", { turn });
  }

  /** The server is ready: the first time, or again after the connection was lost. */
  ready() {
    if (this.opened) return;
    this.opened = true;
    this.sent = new SentClock();
    if (this.attempts > 0) this.fire("anew");
    this.attempts = 0;
    this.fire("problem", { problem: null });
    this.become("listening");
    for (const text of this.waiting.splice(0)) this.say(text);
  }

  hear(pcm) {
    this.fire("microphone", { pcm });
    if (!this.opened) return;
    if (this.client.sendAudio(pcm)) this.sent.push(pcm.length);
  }

  /** Stops the reply that is playing and tells the server how much of it was heard. */
  async interrupt() {
    if (this.response) this.silenced.add(this.response);
    const { item, playedMs } = await this.player.clear();
    if (item === null || !this.active) return;
    this.client?.send("conversation.item.truncate", {
      item_id: item,
      content_index: 0,
      audio_end_ms: Math.floor(playedMs),
    });
    this.fire("cut");
    const turn = this.turns.cut(item, playedMs);
    if (turn) this.fire("turn", { turn });
  }

  started({ item }) {
    const turn = this.turns.ofItem(item);
    this.become("speaking");
    if (!turn) return;
    turn.heardAt ??= performance.now() + this.player.latencyMs;
    this.measure(turn);
    this.fire("turn", { turn });
  }

  /** From the last sample of speech sent to the first of the reply heard, once both are known. */
  measure(turn) {
    const { timings, voiceStartMs, heardAt } = turn;
    if (!timings || voiceStartMs === null || heardAt === null || turn.heardMs !== null) return;
    const sentAt = this.sent.at(voiceStartMs + timings.speech_ms);
    if (sentAt !== null) turn.heardMs = heardAt - sentAt;
  }

  played({ item, playedMs }) {
    const turn = this.turns.played(item, playedMs);
    this.fire("played", { item, playedMs });
    if (turn) this.fire("turn", { turn });
  }

  ended(detail) {
    this.played(detail);
    if (this.state === "speaking") this.become("listening");
  }
}
