// One component on the graph: its name, its replicas, and its load over the last minutes.

import { el } from "../dom.js";
import { History, WINDOW_S } from "./history.js";

const SPARK = { width: 300, height: 40 };

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** How many runs a node's ready replicas serve at once. */
export function capacity({ replicas, concurrency }) {
  return concurrency * replicas.filter(({ state }) => state === "ready").length;
}

export class NodeCard {
  constructor(name) {
    this.history = new History();
    this.use = el("span", { class: "node-use" });
    this.pips = el("span", { class: "pips" });
    this.total = svg("path", { class: "spark-queued" });
    this.active = svg("path", { class: "spark-active" });
    this.spark = svg(
      "svg",
      { class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, preserveAspectRatio: "none", role: "img" },
      this.total,
      this.active,
    );
    this.load = el("span", {});
    this.waiting = el("span", { class: "waiting" });
    this.node = el(
      "div",
      { class: "node" },
      el("p", { class: "node-name" }, el("b", {}, name), this.pips),
      this.use,
      this.spark,
      el("p", { class: "node-load" }, this.load, this.waiting),
    );
  }

  update(status, atS) {
    const { active, queued, use, model, replicas } = status;
    this.history.push(atS, active, queued);
    const scale = Math.max(2, this.history.most);
    this.active.setAttribute("d", this.history.area((one) => one.active, { ...SPARK, scale }));
    this.total.setAttribute("d", this.history.area((one) => one.active + one.queued, { ...SPARK, scale }));
    this.spark.setAttribute(
      "aria-label",
      `Load over the last ${WINDOW_S / 60} minutes: now ${active + queued}, at most ${this.history.most}`,
    );
    this.use.textContent = use;
    this.use.title = model ? `${use}, ${model}` : use;
    this.load.textContent = `${active} of ${capacity(status)} active`;
    this.waiting.textContent = queued > 0 ? `${queued} waiting` : "";
    this.node.classList.toggle("at-work", active > 0);
    this.showReplicas(replicas, status.concurrency);
  }

  showReplicas(replicas, concurrency) {
    const shown = replicas.slice(0, 8).map(({ id, state, active }) => {
      const pip = el("i", { class: "pip", title: `${id}: ${state}, ${active} of ${concurrency} active` });
      pip.dataset.state = state;
      pip.style.setProperty("--busy", Math.min(1, active / concurrency).toFixed(2));
      return pip;
    });
    const rest = replicas.length > 8 ? `+${replicas.length - 8}` : "";
    this.pips.replaceChildren(...shown, rest);
  }
}
