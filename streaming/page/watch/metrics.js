// Reads what the page shows of Prometheus' text format.

const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/** [{name, labels, value}] of every sample. */
export function parse(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, label, value] of (found[2] ?? "").matchAll(LABEL)) labels[label] = value;
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

/** The sum of a metric's samples whose labels hold `wanted`. */
export function total(samples, name, wanted = {}) {
  return samples
    .filter((one) => one.name === name)
    .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}

/** The median of a histogram in seconds, linear within its bucket; null while it is empty. */
export function median(samples, name, wanted) {
  const buckets = samples
    .filter((one) => one.name === `${name}_bucket`)
    .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value))
    .map(({ labels, value }) => [labels.le === "+Inf" ? Infinity : Number(labels.le), value])
    .sort(([a], [b]) => a - b);
  const half = (buckets.at(-1)?.[1] ?? 0) / 2;
  if (half === 0) return null;
  const at = buckets.findIndex(([, count]) => count >= half);
  const [low, before] = at > 0 ? buckets[at - 1] : [0, 0];
  const [high, count] = buckets[at];
  return Number.isFinite(high) ? low + ((high - low) * (half - before)) / (count - before) : low;
}
