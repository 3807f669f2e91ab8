// One conversation with the server: microphone in, speech out, barge-in, reconnects.

import { RealtimeClient } from "./client.js";
import { Microphone } from "./microphone.js";
import { RATE_HZ, int16FromBase64 } from "./pcm.js";
import { MutePlayer, Player } from "./player.js";
import { Problem } from "./problems.js";
import { Turns } from "./turns.js";

const RETRY_S = [1, 2, 4, 8, 15];
const REMEMBERED_FRAMES = 3000; // a minute
const MODEL = "voice";

/** When each part of the stream was sent. */
class SentClock {
  constructor() {
    this.ms = 0;
    this.frames = [];
  }

  push(samples) {
    this.ms += (samples * 1000) / RATE_HZ;
    this.frames.push({ untilMs: this.ms, at: performance.now() });
    if (this.frames.length > REMEMBERED_FRAMES) this.frames.shift();
  }

  /** The time at which the sample at `positionMs` went out, null when that is forgotten. */
  at(positionMs) {
    return this.frames.find((frame) => frame.untilMs >= positionMs)?.at ?? null;
  }
}

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
    if (this.active) this.connect();
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
    this.client = this.microphone = this.player = this.context = null;
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
    if (this.active) this.connect();
    else this.start({ listen: this.listens });
  }

  lost(problem) {
    const retryS = RETRY_S[this.attempts];
    if (problem.code !== "lost" || retryS === undefined || !this.active) {
      this.fail(problem);
      return;
    }
    this.attempts += 1;
    this.opened = false;
    this.player.clear();
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

  hear(pcm) {
    this.fire("microphone", { pcm });
    if (!this.opened) return;
    if (this.client.sendAudio(pcm)) this.sent.push(pcm.length);
  }

  /** Stops the reply that is playing and tells the server how much of it was heard. */
  async interrupt() {
    if (this.response) this.silenced.add(this.response);
    const { item, playedMs } = await this.player.clear();
    if (item === null) return;
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

/** What each server event does to the conversation, beyond the turns it is shown as. */
const REACTIONS = {
  "session.created": (talk) => talk.configure(talk.settings),
  "session.updated": (talk) => {
    if (talk.opened) return;
    talk.opened = true;
    talk.sent = new SentClock();
    if (talk.attempts > 0) talk.fire("anew");
    talk.attempts = 0;
    talk.fire("problem", { problem: null });
    talk.become("listening");
    for (const text of talk.waiting.splice(0)) talk.say(text);
  },
  "input_audio_buffer.speech_started": (talk) => {
    talk.interrupt();
    talk.become("hearing");
  },
  "input_audio_buffer.speech_stopped": (talk) => talk.become("thinking"),
  "conversation.item.input_audio_transcription.completed": (talk, event) => {
    if (event.transcript.trim() === "" && talk.state === "thinking") talk.become("listening");
  },
  "conversation.item.input_audio_transcription.failed": (talk) => talk.become("listening"),
  "response.created": (talk, event) => {
    talk.response = event.response.id;
    if (talk.state === "listening") talk.become("thinking");
  },
  "response.output_audio.delta": (talk, event) => {
    if (talk.silenced.has(event.response_id)) return;
    const pcm = int16FromBase64(event.delta);
    talk.turns.received(event.response_id, pcm.length);
    talk.fire("reply", { item: event.item_id, pcm });
    talk.player.play(event.item_id, pcm);
  },
  "response.output_audio.done": (talk, event) => {
    if (!talk.silenced.has(event.response_id)) talk.player.finish(event.item_id);
  },
  "response.done": (talk, event) => {
    if (talk.response === event.response.id) talk.response = null;
    const reply = talk.turns.ofResponse(event.response.id)?.reply;
    if (talk.state === "thinking" && !reply?.received) talk.become("listening");
    if (event.response.status === "failed") {
      talk.fire("problem", { problem: new Problem("failed", reply?.error) });
    }
  },
  "motet.turn.timings": (talk, event) => {
    const turn = talk.turns.ofResponse(event.response_id);
    if (turn) talk.measure(turn);
  },
  error: (talk, { error }) => {
    // Ours to mend, not the reader's: a cancel or a truncate that came too late, say.
    if (error.type === "invalid_request_error") console.warn(error.code, error.message);
    else talk.fire("problem", { problem: new Problem("failed", error.message) });
  },
};

Talk.prototype.receive = function receive(event) {
  const turn = this.silenced.has(event.response_id) ? null : this.turns.apply(event);
  REACTIONS[event.type]?.(this, event);
  if (turn) this.fire("turn", { turn });
};
