// The watch view: every pipeline's graph as it works, read once a second while it is looked at.

import { el } from "../dom.js";
import { authorization } from "../voice/client.js";
import { parse } from "../watch/metrics.js";
import { PipelineView, shapeOf } from "../watch/pipeline.js";

export const id = "watch";
export const title = "Watch";

const PERIOD_MS = 1000;

/** Whatever runs can be watched. */
export function applies(pipelines) {
  return pipelines.length > 0;
}

const sum = (list, value) => list.reduce((total, one) => total + value(one), 0);
const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

/** The first thing that somebody who looks wants to know: [heading, text]. */
export function summary({ ready, pipelines }) {
  const nodes = pipelines.flatMap(({ versions }) => versions.flatMap((version) => version.nodes));
  const queued = sum(nodes, (node) => node.queued);
  const active = sum(nodes, (node) => node.active);
  const sessions = sum(pipelines, (pipeline) => pipeline.sessions);
  const text = `${count(sessions, "session", "sessions")} open, ${count(active, "run", "runs")} active, ${queued === 0 ? "nothing waits" : `${queued} waiting`}.`;
  if (!ready) {
    const late = pipelines.filter((pipeline) => !pipeline.ready).map((pipeline) => pipeline.name);
    return ["Not ready.", `${late.length > 0 ? `${late.join(", ")} can't take work now. ` : "The server is shutting down. "}${text}`];
  }
  if (queued > 0) return ["Busy.", text];
  return [active > 0 ? "At work." : "All quiet.", text];
}

/** What changed between two looks that is worth reading aloud. */
export function changes(before, after) {
  const said = [];
  for (const { name, ready, nodes, versions } of after.pipelines) {
    const old = before.pipelines.find((one) => one.name === name);
    if (!old) continue;
    if (old.ready !== ready) said.push(`${name} is ${ready ? "ready" : "not ready"}`);
    if (old.versions[0].version !== versions[0].version) said.push(`${name} is at version ${versions[0].version}`);
    for (const { node, replicas } of nodes) {
      const was = old.nodes.find((one) => one.node === node)?.replicas.length;
      if (was !== replicas.length) said.push(`${node} has ${count(replicas.length, "replica", "replicas")}`);
    }
  }
  return said;
}

class WatchView {
  constructor({ main }) {
    this.views = new Map();
    this.last = null;
    this.heading = el("h1", {}, "Looking.");
    this.text = el("p", { class: "lead" });
    this.live = el("p", { class: "unseen", "aria-live": "polite" });
    this.list = el("div", {});
    this.root = el("div", { class: "watch-view" }, el("header", { class: "watch-head" }, this.heading, this.text), this.list, this.live);
    main.append(this.root);
    this.wake = () => (document.hidden ? clearTimeout(this.timer) : this.poll());
    document.addEventListener("visibilitychange", this.wake);
    this.poll();
  }

  async poll() {
    clearTimeout(this.timer);
    this.request?.abort();
    const request = (this.request = new AbortController());
    try {
      const options = { headers: authorization(), cache: "no-store", signal: request.signal };
      const [status, metrics] = await Promise.all([fetch("/v1/status", options), fetch("/metrics", options)]);
      if (status.status === 401) return window.dispatchEvent(new Event("motet-locked"));
      if (!status.ok) throw new Error(`HTTP ${status.status}`);
      this.show(await status.json(), parse(metrics.ok ? await metrics.text() : ""));
    } catch (error) {
      if (request.signal.aborted) return;
      this.lost(error);
    }
    if (!document.hidden) this.timer = setTimeout(() => this.poll(), PERIOD_MS);
  }

  show(status, samples) {
    const atS = performance.now() / 1000;
    this.root.classList.remove("stale");
    [this.heading.textContent, this.text.textContent] = summary(status);
    for (const pipeline of status.pipelines) {
      if (this.views.get(pipeline.name)?.shape !== shapeOf(pipeline)) this.add(pipeline);
      this.views.get(pipeline.name).update(pipeline, samples, atS);
    }
    if (this.last) {
      const said = changes(this.last, status);
      if (said.length > 0) this.live.textContent = `${said.join(". ")}.`;
    }
    this.last = status;
  }

  add(pipeline) {
    const view = new PipelineView(pipeline);
    const old = this.views.get(pipeline.name);
    this.views.set(pipeline.name, view);
    if (old) old.node.replaceWith(view.node);
    else this.list.append(view.node);
    old?.close();
    view.graph.layOut();
  }

  lost(error) {
    this.root.classList.add("stale");
    this.heading.textContent = "No answer.";
    this.text.textContent = `The server can't be reached (${error.message}). Trying again every second; what stands below is how it was.`;
  }

  close() {
    clearTimeout(this.timer);
    this.request.abort();
    document.removeEventListener("visibilitychange", this.wake);
    for (const view of this.views.values()) view.close();
  }
}

/** Shows the view in `place`; the function that comes back takes it away again. */
export function mount(place) {
  const view = new WatchView(place);
  return () => view.close();
}
