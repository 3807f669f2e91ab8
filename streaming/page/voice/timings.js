// The picture of where one turn's milliseconds went: each stage a bar on the time axis of the turn.

import { el } from "../dom.js";

const STAGES = [
  ["vad_ms", "Pause heard"],
  ["end_of_turn_ms", "Turn over"],
  ["asr_ms", "Transcript"],
  ["llm_first_token_ms", "First word"],
  ["tts_first_audio_ms", "First sound"],
];

/** [{label, startMs, lengthMs}] in order, the last one what network and playback added. */
export function stages(timings, heardMs) {
  let at = 0;
  const rows = STAGES.map(([name, label]) => {
    const lengthMs = timings[name] ?? 0;
    const row = { label, startMs: at, lengthMs };
    at += lengthMs;
    return row;
  });
  if (heardMs !== null) {
    rows.push({ label: "Network, playback", startMs: at, lengthMs: Math.max(0, heardMs - at) });
  }
  return rows.filter((row) => row.lengthMs >= 0.5);
}

function bar({ label, startMs, lengthMs }, totalMs) {
  const fill = el("i", { class: "bar-fill" });
  fill.style.insetInlineStart = `${(100 * startMs) / totalMs}%`;
  fill.style.inlineSize = `${Math.max(0.6, (100 * lengthMs) / totalMs)}%`;
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, label),
    el("td", { class: "bar", "aria-hidden": "true" }, fill),
    el("td", { class: "ms" }, `${Math.round(lengthMs)}`),
  );
}

/** A table that is also a picture; null while nothing is known. */
export function timingsPicture(turn) {
  if (!turn.timings) return null;
  const rows = stages(turn.timings, turn.heardMs);
  const totalMs = rows.reduce((sum, row) => sum + row.lengthMs, 0);
  if (totalMs === 0) return null;
  const heard = turn.heardMs === null ? "Answered after" : "Heard after";
  return el(
    "table",
    { class: "timings" },
    el(
      "caption",
      {},
      el("span", {}, heard),
      " ",
      el("strong", {}, `${Math.round(totalMs)} ms`),
    ),
    el("tbody", {}, ...rows.map((row) => bar(row, totalMs))),
  );
}
