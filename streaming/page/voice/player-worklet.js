// Runs on the audio thread: plays queued speech without gaps and counts each sample it played.
//
// In:  {type: "audio", item, pcm}   more of an item, Int16Array
//      {type: "finish", item}       nothing more of it comes
//      {type: "clear", request}     stop at once
// Out: {type: "started", item}, {type: "progress", item, played}, {type: "ended", item, played},
//      {type: "cleared", request, item, played}; `played` counts samples of the item, and `item`
//      is null when nothing was playing.

const START_SAMPLES = sampleRate / 25; // 40 ms in hand before an item starts or starts again
const FADE_SAMPLES = 128; // a clear fades over 5 ms, so that it doesn't click
const REPORT_BLOCKS = 4;

class Player extends AudioWorkletProcessor {
  constructor() {
    super();
    this.items = []; // in order of play: {item, chunks, offset, queued, played, complete}
    this.starved = true;
    this.blocks = 0;
    this.tail = null;
    this.port.onmessage = ({ data }) => this[data.type](data);
  }

  entry(item) {
    let found = this.items.find((one) => one.item === item);
    if (!found) {
      found = { item, chunks: [], offset: 0, queued: 0, played: 0, complete: false };
      this.items.push(found);
    }
    return found;
  }

  audio({ item, pcm }) {
    const entry = this.entry(item);
    entry.chunks.push(pcm);
    entry.queued += pcm.length;
  }

  finish({ item }) {
    this.entry(item).complete = true;
  }

  clear({ request }) {
    const current = this.items[0];
    if (current && current.queued > 0 && !this.starved) {
      this.tail = new Float32Array(FADE_SAMPLES);
      const faded = this.take(current, this.tail, 0);
      for (let i = 0; i < faded; i += 1) this.tail[i] *= 1 - i / FADE_SAMPLES;
    }
    this.port.postMessage({
      type: "cleared",
      request,
      item: current?.item ?? null,
      played: current?.played ?? 0,
    });
    this.items = [];
    this.starved = true;
  }

  take(entry, output, from) {
    let at = from;
    while (at < output.length && entry.chunks.length > 0) {
      const chunk = entry.chunks[0];
      const count = Math.min(output.length - at, chunk.length - entry.offset);
      for (let i = 0; i < count; i += 1) output[at + i] = chunk[entry.offset + i] / 32768;
      at += count;
      entry.offset += count;
      if (entry.offset === chunk.length) {
        entry.chunks.shift();
        entry.offset = 0;
      }
    }
    entry.queued -= at - from;
    entry.played += at - from;
    return at - from;
  }

  ready(entry) {
    if (!this.starved) return true;
    if (entry.queued < START_SAMPLES && !entry.complete) return false;
    this.starved = false;
    if (entry.played === 0) this.port.postMessage({ type: "started", item: entry.item });
    return true;
  }

  play(output) {
    let at = 0;
    while (at < output.length && this.items.length > 0) {
      const entry = this.items[0];
      if (!this.ready(entry)) break;
      at += this.take(entry, output, at);
      if (at === output.length) break;
      this.starved = true;
      if (!entry.complete) break;
      this.items.shift();
      this.port.postMessage({ type: "ended", item: entry.item, played: entry.played });
    }
  }

  process(_inputs, [[output]]) {
    if (this.tail) {
      output.set(this.tail.subarray(0, output.length));
      this.tail = null;
      return true;
    }
    this.play(output);
    this.blocks += 1;
    if (this.blocks % REPORT_BLOCKS === 0 && this.items.length > 0 && !this.starved) {
      const { item, played } = this.items[0];
      this.port.postMessage({ type: "progress", item, played });
    }
    return true;
  }
}

registerProcessor("motet-player", Player);
