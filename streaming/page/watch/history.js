// What was seen of each node in the last minutes, kept in this page alone.

export const WINDOW_S = 300;

export class History {
  constructor() {
    this.samples = []; // {atS, active, queued}
  }

  push(atS, active, queued) {
    this.samples.push({ atS, active, queued });
    while (this.samples[0].atS < atS - WINDOW_S) this.samples.shift();
  }

  /** The most runs that were there at once, waiting ones included. */
  get most() {
    return this.samples.reduce((most, { active, queued }) => Math.max(most, active + queued), 0);
  }

  /**
   * The window as an SVG path in `width` x `height`: steps of `value(sample)` from `WINDOW_S` ago
   * to now, closed along the bottom. `scale` is the value that reaches the top.
   */
  area(value, { width, height, scale }) {
    const now = this.samples.at(-1)?.atS ?? 0;
    const x = (atS) => (width * (1 - (now - atS) / WINDOW_S)).toFixed(1);
    const y = (sample) => (height * (1 - Math.min(1, value(sample) / scale))).toFixed(1);
    if (this.samples.length === 0) return "";
    let path = `M${x(this.samples[0].atS)} ${height}V${y(this.samples[0])}`;
    for (const sample of this.samples.slice(1)) path += `H${x(sample.atS)}V${y(sample)}`;
    return `${path}H${width}V${height}Z`;
  }
}
