// A pipeline as an operator sees it: how it is, its graph, and a table of its components.

import { el } from "../dom.js";
import { Graph } from "./graph.js";
import { median, total } from "./metrics.js";

const COLUMNS = ["Component", "Model", "Replicas", "Active", "Waiting", "Refused", "Faults", "Cold start", "Version"];
const seconds = (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`);

/** What is worth saying of a pipeline beyond its nodes, as [label, value, note]. */
export function facts({ name, sessions, max_sessions: most, versions }, samples) {
  const at = { pipeline: name };
  const doors = samples.filter(({ name: metric, labels, value }) => metric === "motet_sessions" && labels.pipeline === name && value > 0);
  const rows = [["Sessions", `${sessions} of ${most}`, doors.map(({ labels, value }) => `${value} ${labels.door}`).join(", ")]];
  const turns = total(samples, "motet_turns_total", at);
  if (turns > 0) {
    const failed = total(samples, "motet_turns_total", { ...at, outcome: "failed" });
    rows.push(["Turns", String(turns), failed > 0 ? `${failed} failed` : "none failed"]);
  }
  const heard = median(samples, "motet_stage_seconds", { ...at, stage: "voice_to_voice" });
  if (heard !== null) rows.push(["Answered after", seconds(heard), "at the median"]);
  return [...rows, ...versionFacts(versions)];
}

/** A row for each version, once there is more than one. */
function versionFacts(versions) {
  if (versions.length < 2) return [];
  return versions.map(({ version, role, share, sessions, runs, faults }) => {
    const part = role === "retiring" ? "running out" : `${role}, ${Math.round(share * 100)} %`;
    return [`Version ${version}`, part, `${sessions} open, ${faults} of ${runs} failed`];
  });
}

/** What a view of a pipeline is built on: it is built anew when a reload changes this. */
export const shapeOf = ({ nodes, edges }) => JSON.stringify([nodes.map(({ node }) => node), edges]);

function cells(status, faults) {
  const { replicas, min_replicas: least, max_replicas: most } = status;
  const ready = replicas.filter(({ state }) => state === "ready");
  const range = least === most ? `of ${most}` : `of ${least} to ${most}`;
  const starts = ready.map(({ started_s: took }) => took);
  const versions = [...new Set(replicas.map(({ version }) => version))];
  return [
    status.node,
    status.model || "built in",
    `${ready.length} ${range}`,
    String(status.active),
    `${status.queued} of ${status.queue_bound}`,
    String(status.refused),
    String(faults),
    starts.length > 0 ? seconds(Math.max(...starts)) : "not started",
    versions.join(", ") || "none",
  ];
}

/** Roles are said, because narrow screens lay rows out as grids, which hides what they are. */
function rowOf() {
  const cellsOf = COLUMNS.map((label, index) =>
    index === 0
      ? el("th", { scope: "row", role: "rowheader" })
      : el("td", { role: "cell", "data-label": label }),
  );
  return el("tr", { role: "row" }, ...cellsOf);
}

export class PipelineView {
  constructor(pipeline) {
    this.shape = shapeOf(pipeline);
    this.graph = new Graph(pipeline);
    this.state = el("span", { class: "state" });
    this.facts = el("dl", { class: "facts" });
    this.rows = new Map();
    const body = el("tbody", {});
    for (const { node } of pipeline.nodes) {
      const row = rowOf();
      this.rows.set(node, row);
      body.append(row);
    }
    this.node = el(
      "section",
      { class: "pipeline", "aria-label": `Pipeline ${pipeline.name}` },
      el("header", {}, el("div", {}, el("h2", {}, pipeline.name, this.state), el("p", {}, pipeline.description)), this.facts),
      this.graph.node,
      el(
        "table",
        { class: "components", role: "table" },
        el("thead", {}, el("tr", {}, ...COLUMNS.map((label) => el("th", { scope: "col" }, label)))),
        body,
      ),
    );
  }

  update(pipeline, samples, atS) {
    this.state.textContent = pipeline.ready ? "ready" : "not ready";
    this.state.dataset.ready = pipeline.ready;
    this.graph.update(pipeline.nodes, atS);
    this.facts.replaceChildren(
      ...facts(pipeline, samples).map(([label, value, note]) =>
        el("div", {}, el("dt", {}, label), el("dd", {}, value, note ? el("small", {}, note) : null)),
      ),
    );
    for (const status of pipeline.nodes) {
      const faults = total(samples, "motet_faults_total", { pipeline: pipeline.name, node: status.node });
      const row = this.rows.get(status.node);
      cells(status, faults).forEach((text, index) => {
        const cell = row?.cells[index];
        if (cell && cell.textContent !== text) cell.textContent = text;
      });
      row?.cells[5].classList.toggle("bad", status.refused > 0);
      row?.cells[6].classList.toggle("bad", faults > 0);
    }
  }

  close() {
    this.graph.close();
  }
}
