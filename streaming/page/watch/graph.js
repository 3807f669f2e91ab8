// The picture of a pipeline's graph: cards on a plane, edges as SVG beneath, re-laid as it resizes.

import { el } from "../dom.js";
import { columns, place } from "./layout.js";
import { NodeCard } from "./node-card.js";

const CARD = { least: 128, most: 190, across: 138 };
const LABEL_HEIGHT = 34;
const WORDS = { input: "in", output: "out", reply: "out", conversation: "conversation" };
const NS = "http://www.w3.org/2000/svg";
let arrows = 0;

const labelWidth = (name) => (name === "conversation" ? 118 : 44);

export class Graph {
  /** `pipeline` is one of `/v1/status`; a reload that changes its graph needs a new one of these. */
  constructor(pipeline) {
    this.graph = columns(pipeline.edges);
    this.cards = new Map(pipeline.nodes.map(({ node }) => [node, new NodeCard(node)]));
    this.labels = new Map();
    for (const name of this.graph.columns.flat()) {
      if (!this.cards.has(name)) this.labels.set(name, el("span", { class: "port" }, WORDS[name] ?? name));
    }
    this.svg = document.createElementNS(NS, "svg");
    this.svg.setAttribute("class", "edges");
    this.svg.setAttribute("aria-hidden", "true");
    this.arrow = `arrow-${(arrows += 1)}`;
    this.node = el(
      "div",
      { class: "graph", role: "group", "aria-label": `Graph of ${pipeline.name}` },
      this.svg,
      ...this.inOrder(),
    );
    this.observer = new ResizeObserver(() => this.layOut());
    this.observer.observe(this.node);
  }

  inOrder() {
    return this.graph.columns.flat().map((name) => this.cards.get(name)?.node ?? this.labels.get(name));
  }

  update(nodes, atS) {
    for (const status of nodes) this.cards.get(status.node)?.update(status, atS);
    const busy = new Set(nodes.filter(({ active }) => active > 0).map(({ node }) => node));
    for (const [index, { from, to }] of (this.placed?.paths ?? []).entries()) {
      const lit = (busy.has(from) || !this.cards.has(from)) && (busy.has(to) || !this.cards.has(to));
      this.lines[index].classList.toggle("at-work", busy.size > 0 && lit);
    }
  }

  /** To the right where that fits, downwards where it doesn't. */
  layOut() {
    const room = this.node.clientWidth;
    if (room === 0 || room === this.room) return;
    this.room = room;
    const down = this.across(CARD.least).along > room;
    this.placed = down ? this.downwards(Math.min(room, 560)) : this.across(this.widest(room));
    this.node.style.height = `${down ? this.placed.along : this.placed.across}px`;
    for (const [name, box] of this.placed.boxes) this.put(name, box, down);
    this.draw();
  }

  /** The graph to the right, its cards `width` wide. */
  across(width) {
    return place(this.graph, (name) => (this.cards.has(name) ? [width, CARD.across] : [labelWidth(name), LABEL_HEIGHT]));
  }

  /** How wide cards may be so that all columns fit into `room`. */
  widest(room) {
    const cards = this.graph.columns.filter((names) => names.some((name) => this.cards.has(name)));
    const spare = room - this.across(CARD.least).along;
    return Math.min(CARD.most, CARD.least + Math.floor(spare / Math.max(1, cards.length)));
  }

  downwards(room) {
    const size = (name) => (this.cards.has(name) ? [CARD.across, room] : [LABEL_HEIGHT, labelWidth(name)]);
    return place(this.graph, size, { down: true, across: room });
  }

  put(name, { at, along, offset, across }, down) {
    const { style } = this.cards.get(name)?.node ?? this.labels.get(name);
    const [x, y, width, height] = down ? [offset, at, across, along] : [at, offset, along, across];
    Object.assign(style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  }

  draw() {
    const make = (tag, attributes) => {
      const node = document.createElementNS(NS, tag);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };
    const marker = make("marker", { id: this.arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" });
    marker.append(make("path", { d: "M1 1L7 4L1 7", class: "arrow" }));
    this.lines = this.placed.paths.map(({ path }) => make("path", { d: path, class: "edge", "marker-end": `url(#${this.arrow})` }));
    this.svg.replaceChildren(marker, ...this.lines);
  }

  close() {
    this.observer.disconnect();
  }
}
