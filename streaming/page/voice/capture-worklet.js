// Runs on the audio thread: cuts what the microphone hears into frames of 20 ms at 24 kHz.

import { RATE_HZ, int16FromFloat } from "./pcm.js";
import { Resampler } from "./resample.js";

const FRAME_SAMPLES = RATE_HZ / 50;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = sampleRate === RATE_HZ ? null : new Resampler(sampleRate, RATE_HZ);
    this.frame = new Float32Array(FRAME_SAMPLES);
    this.filled = 0;
  }

  process([input]) {
    if (input.length === 0) return true;
    const heard = this.resampler ? this.resampler.push(input[0]) : input[0];
    for (const sample of heard) {
      this.frame[this.filled] = sample;
      this.filled += 1;
      if (this.filled === FRAME_SAMPLES) this.send();
    }
    return true;
  }

  send() {
    const pcm = int16FromFloat(this.frame);
    this.port.postMessage(pcm, [pcm.buffer]);
    this.filled = 0;
  }
}

registerProcessor("motet-capture", Capture);
