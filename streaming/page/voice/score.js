// The picture of two voices on one time axis: what was said to the left of now, and to the right
// of it the reply that has come but isn't spoken yet. Drawn from the real samples.

import { RATE_HZ, peaks } from "./pcm.js";

const BUCKET_MS = 10;
const BUCKET_SAMPLES = (RATE_HZ * BUCKET_MS) / 1000;
const PX_PER_BUCKET = 1.25;
const LENGTH = 4096; // buckets kept: 40 s, wider than any screen
const CALM_FPS = 4;

/** Height of a sample in -1..1: quiet speech is seen, loud speech isn't clipped. */
function shown(sample) {
  return Math.sign(sample) * Math.abs(sample) ** 0.75;
}

/** Peaks of one voice by time: a ring of [low, high] pairs addressed by bucket number. */
class Lane {
  constructor() {
    this.low = new Float32Array(LENGTH);
    this.high = new Float32Array(LENGTH);
    this.until = 0;
  }

  /** Writes `found` so that its last pair lies just before `bucket`. */
  write(found, bucket) {
    const first = Math.max(bucket - found.length, this.until);
    for (let at = Math.max(this.until, first - LENGTH); at < first; at += 1) this.put(at, [0, 0]);
    const skipped = Math.max(0, found.length - Math.max(0, bucket - first));
    const rest = found.slice(Math.min(skipped, found.length));
    rest.forEach((pair, index) => this.put(first + index, pair));
    this.until = Math.max(this.until, first + rest.length);
  }

  put(at, [low, high]) {
    this.low[at % LENGTH] = low;
    this.high[at % LENGTH] = high;
  }

  at(bucket) {
    if (bucket < 0 || bucket >= this.until || bucket < this.until - LENGTH) return [0, 0];
    return [this.low[bucket % LENGTH], this.high[bucket % LENGTH]];
  }
}

export class Score {
  /** `level` is told the loudness of the microphone, 0..1, as it changes. */
  constructor(canvas, { level }) {
    this.canvas = canvas;
    this.level = level;
    this.yours = new Lane();
    this.ours = new Lane();
    this.coming = []; // {item, peaks, spoken}
    this.origin = performance.now();
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
    this.running = false;
    this.drawnAt = 0;
  }

  get bucket() {
    return (performance.now() - this.origin) / BUCKET_MS;
  }

  microphone(pcm) {
    const found = peaks(pcm, BUCKET_SAMPLES);
    this.yours.write(found, Math.floor(this.bucket));
    this.level(Math.min(1, Math.max(...found.map(([low, high]) => high - low)) * 0.9));
  }

  reply(item, pcm) {
    let entry = this.coming.find((one) => one.item === item);
    if (!entry) this.coming.push((entry = { item, peaks: [], spoken: 0 }));
    entry.peaks.push(...peaks(pcm, BUCKET_SAMPLES));
  }

  played(item, playedMs) {
    const entry = this.coming.find((one) => one.item === item);
    if (!entry) return;
    const spoken = Math.min(entry.peaks.length, Math.floor(playedMs / BUCKET_MS));
    this.ours.write(entry.peaks.slice(entry.spoken, spoken), Math.floor(this.bucket));
    entry.spoken = spoken;
    this.coming = this.coming.filter((one) => one === entry || one.spoken < one.peaks.length);
  }

  cut() {
    this.coming = [];
  }

  start() {
    if (this.running) return;
    this.running = true;
    requestAnimationFrame((time) => this.tick(time));
  }

  stop() {
    this.running = false;
    this.coming = [];
    this.level(0);
  }

  close() {
    this.stop();
    this.observer.disconnect();
  }

  tick(time) {
    if (!this.running) return;
    if (!this.calm.matches || time - this.drawnAt > 1000 / CALM_FPS) {
      this.drawnAt = time;
      this.draw();
    }
    requestAnimationFrame((next) => this.tick(next));
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * scale);
    this.canvas.height = Math.round(this.canvas.clientHeight * scale);
    this.draw();
  }

  draw() {
    const { canvas } = this;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.width / scale, canvas.height / scale];
    const style = getComputedStyle(canvas);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const now = width / 2;
    const [mine, reply] = [height * 0.3, height * 0.7];
    const reach = height * 0.27;
    const at = this.bucket;
    const past = (lane) => (x) => lane.at(Math.floor(at - (now - x) / PX_PER_BUCKET));
    const lanes = [
      [style.getPropertyValue("--yours"), mine, 0, now, past(this.yours), 1],
      [style.getPropertyValue("--accent"), reply, 0, now, past(this.ours), 1],
      [style.getPropertyValue("--accent"), reply, now, width, this.ahead(now), 0.3],
    ];
    context.strokeStyle = style.getPropertyValue("--line");
    for (const y of [mine, reply]) this.stave(context, y, width);
    for (const [colour, y, from, to, pair, alpha] of lanes) {
      context.fillStyle = colour;
      context.globalAlpha = alpha;
      this.voice(context, y, reach, from, to, pair);
    }
    context.globalAlpha = 1;
  }

  stave(context, y, width) {
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(0, Math.round(y) + 0.5);
    context.lineTo(width, Math.round(y) + 0.5);
    context.stroke();
  }

  /** The reply that waits, laid out to the right of `now`. */
  ahead(now) {
    const waiting = this.coming.flatMap((entry) => entry.peaks.slice(entry.spoken, entry.spoken + 2000));
    return (x) => waiting[Math.floor((x - now) / PX_PER_BUCKET)] ?? [0, 0];
  }

  voice(context, y, reach, from, to, pair) {
    const lows = [];
    context.beginPath();
    context.moveTo(from, y);
    for (let x = from; x <= to; x += 1) {
      const [low, high] = pair(x);
      lows.push(low);
      context.lineTo(x, y - shown(high) * reach);
    }
    for (let x = to; x >= from; x -= 1) {
      context.lineTo(x, y - shown(lows[Math.round(x - from)] ?? 0) * reach);
    }
    context.closePath();
    context.fill();
  }
}
