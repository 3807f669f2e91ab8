// When each part of the microphone's stream was sent.

import { RATE_HZ } from "./pcm.js";

const REMEMBERED_FRAMES = 3000; // a minute

export class SentClock {
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
