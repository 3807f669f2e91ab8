// Plays the reply through the audio thread, and knows to the sample what was played of each item.

import { RATE_HZ } from "./pcm.js";

export class Player extends EventTarget {
  /** Fires "started", "progress", "ended" with detail {item, playedMs}. */
  static async open(context) {
    await context.audioWorklet.addModule(new URL("player-worklet.js", import.meta.url));
    return new Player(context);
  }

  audible = true;

  constructor(context) {
    super();
    this.context = context;
    this.playing = null;
    this.requests = new Map();
    this.node = new AudioWorkletNode(context, "motet-player", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.node.port.onmessage = ({ data }) => this.report(data);
    this.node.connect(context.destination);
  }

  /** How much later than it is counted a sample leaves the loudspeaker. */
  get latencyMs() {
    return ((this.context.outputLatency || 0) + (this.context.baseLatency || 0)) * 1000;
  }

  play(item, pcm) {
    this.node.port.postMessage({ type: "audio", item, pcm }, [pcm.buffer]);
  }

  finish(item) {
    this.node.port.postMessage({ type: "finish", item });
  }

  /** Silence at once; resolves to what was really played: {item, playedMs}, item null for nothing. */
  clear() {
    const request = crypto.getRandomValues(new Uint32Array(1))[0];
    const answer = new Promise((resolve) => this.requests.set(request, resolve));
    this.node.port.postMessage({ type: "clear", request });
    return answer;
  }

  report({ type, item, request, played = 0 }) {
    const detail = { item, playedMs: (played * 1000) / RATE_HZ };
    if (type === "cleared") {
      this.playing = null;
      this.requests.get(request)?.(detail);
      this.requests.delete(request);
      return;
    }
    this.playing = type === "ended" ? null : item;
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  close() {
    this.node.disconnect();
    this.node.port.close();
  }
}

/** Stands in where the browser plays no sound (a page that isn't secure): replies come as text. */
export class MutePlayer {
  audible = false;
  latencyMs = 0;

  play() {}

  finish() {}

  async clear() {
    return { item: null, playedMs: 0 };
  }

  close() {}
}
