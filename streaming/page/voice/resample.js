// Stateful sample-rate conversion: a polyphase windowed-sinc filter that loses no sample between
// pushes. Used only where the browser won't open a microphone at the rate that the server wants.

const ZERO_CROSSINGS = 12;
const ROLL_OFF = 0.94; // pass band as a share of the lower Nyquist rate, leaving room to the window

function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}

function kernel(offset, cutoff, half) {
  const taps = new Float32Array(2 * half);
  let sum = 0;
  for (let i = 0; i < taps.length; i += 1) {
    const t = i - (half - 1) - offset;
    const angle = Math.PI * cutoff * t;
    const sinc = angle === 0 ? 1 : Math.sin(angle) / angle;
    const window = 0.5 + 0.5 * Math.cos((Math.PI * Math.min(Math.abs(t), half)) / half);
    taps[i] = sinc * window;
    sum += taps[i];
  }
  return taps.map((tap) => tap / sum);
}

export class Resampler {
  /** Converts mono float samples from `fromHz` to `toHz`, both whole numbers. */
  constructor(fromHz, toHz) {
    const common = gcd(fromHz, toHz);
    this.up = toHz / common;
    this.down = fromHz / common;
    const cutoff = Math.min(1, toHz / fromHz) * ROLL_OFF;
    this.half = Math.ceil(ZERO_CROSSINGS / cutoff);
    this.kernels = Array.from({ length: this.up }, (_, phase) =>
      kernel(phase / this.up, cutoff, this.half),
    );
    this.held = new Float32Array(this.half - 1); // silence before the first sample
    this.phase = 0;
  }

  /** The output that `input` completes; what it lacks yet comes with the next push. */
  push(input) {
    const samples = new Float32Array(this.held.length + input.length);
    samples.set(this.held);
    samples.set(input, this.held.length);
    const output = [];
    let start = 0;
    while (start + 2 * this.half <= samples.length) {
      const taps = this.kernels[this.phase];
      let sum = 0;
      for (let i = 0; i < taps.length; i += 1) sum += taps[i] * samples[start + i];
      output.push(sum);
      this.phase += this.down;
      start += Math.floor(this.phase / this.up);
      this.phase %= this.up;
    }
    this.held = samples.slice(start);
    return Float32Array.from(output);
  }
}
