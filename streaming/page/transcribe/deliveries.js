// The drawer of webhooks: who is told of finished jobs, and how each delivery went.

import { el, icon } from "../dom.js";
import { askJson } from "../http.js";

const PERIOD_MS = 2000;
const TYPES = { "job.completed": "Completed", "job.failed": "Failed", "job.cancelled": "Cancelled" };
const time = (text) => new Date(text).toLocaleTimeString("en-GB");

export class Deliveries {
  constructor() {
    this.button = el("button", { type: "button", class: "plain-button", on: { click: () => this.open() } }, "Webhooks");
    this.endpoints = el("ul", { class: "endpoints" });
    this.list = el("ol", { class: "deliveries" });
    this.said = el("p", { class: "said-once", role: "status" });
    this.url = el("input", { type: "url", name: "url", required: true, placeholder: "https://…", "aria-label": "Address of a new webhook", autocomplete: "off" });
    this.form = el("form", { class: "add-endpoint", on: { submit: (event) => this.add(event) } }, this.url, el("button", { type: "submit", class: "solid" }, "Add"));
    const header = el("header", {}, el("h2", { id: "webhooks-title" }, "Webhooks"), el("button", { type: "button", class: "quiet", "aria-label": "Close", on: { click: () => this.dialog.close() } }, icon("close")));
    this.dialog = el("dialog", { class: "drawer", "aria-labelledby": "webhooks-title" }, header, this.endpoints, this.form, this.said, el("h3", {}, "Deliveries"), this.list);
    this.dialog.addEventListener("close", () => clearTimeout(this.timer));
    this.opened = new Set();
  }

  open() {
    this.dialog.showModal();
    this.look();
  }

  async look() {
    clearTimeout(this.timer);
    try {
      const [endpoints, deliveries] = await Promise.all([askJson("/v1/webhooks"), askJson("/v1/webhooks/deliveries?limit=30")]);
      this.show(endpoints.data, deliveries.data);
    } catch (error) {
      this.said.textContent = error.message;
    }
    if (this.dialog.open) this.timer = setTimeout(() => this.look(), PERIOD_MS);
  }

  /** Rows are made anew only where something changed, so that focus stays where it is. */
  show(endpoints, deliveries) {
    const key = JSON.stringify([endpoints, deliveries]);
    if (key === this.shown) return;
    this.shown = key;
    const urls = new Map(endpoints.map(({ id, url }) => [id, url]));
    this.endpoints.replaceChildren(...endpoints.map((endpoint) => this.endpoint(endpoint)));
    this.list.replaceChildren(...deliveries.map((delivery) => this.delivery(delivery, urls)));
    if (deliveries.length === 0) {
      this.list.append(el("li", { class: "about" }, endpoints.length > 0 ? "Nothing was sent yet." : "No webhook is told of finished jobs yet."));
    }
  }

  endpoint({ id, url, disabled }) {
    const remove = () => this.act(`/v1/webhooks/${id}`, { method: "DELETE" });
    const enable = () => this.act(`/v1/webhooks/${id}/enable`, { method: "POST" });
    return el(
      "li",
      {},
      el("span", { class: "url" }, url, disabled ? el("small", { class: "bad" }, `Off: ${disabled}`) : null),
      disabled ? el("button", { type: "button", class: "plain-button", on: { click: enable } }, "Use again") : null,
      el("button", { type: "button", class: "plain-button", on: { click: remove } }, "Remove"),
    );
  }

  delivery({ id, type, state, attempts, next_at: next, created_at: made, endpoint }, urls) {
    const tries = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
    const soon = state === "pending" && attempts > 0 ? `, next at ${time(next)}` : "";
    const log = el("ol", { class: "attempts" });
    const details = el(
      "details",
      { "data-state": state, open: this.opened.has(id) },
      el("summary", {}, el("b", {}, TYPES[type] ?? type), el("span", {}, `${state}, ${tries}${soon}`), el("small", {}, `${time(made)} to ${urls.get(endpoint) ?? endpoint}`)),
      log,
      el("button", { type: "button", class: "plain-button", on: { click: () => this.act("/v1/webhooks/deliveries/replay", { method: "POST", body: { ids: [id] } }) } }, "Send again"),
    );
    const fill = () => details.open && this.fill(log, id);
    details.addEventListener("toggle", () => {
      this.opened[details.open ? "add" : "delete"](id);
      fill();
    });
    fill();
    return el("li", {}, details);
  }

  async fill(log, id) {
    const { attempts } = await askJson(`/v1/webhooks/deliveries/${id}`).catch(() => ({ attempts: [] }));
    log.replaceChildren(
      ...attempts.map(({ at, status, error, latency_ms: tookMs }) =>
        el("li", {}, `${time(at)}: ${status ? `HTTP ${status}` : (error ?? "no answer")} after ${Math.round(tookMs)} ms`),
      ),
    );
  }

  async add(event) {
    event.preventDefault();
    try {
      const { secret } = await askJson("/v1/webhooks", { method: "POST", body: { url: this.url.value } });
      this.url.value = "";
      this.said.replaceChildren("It signs with this secret, shown only now: ", el("code", {}, secret));
    } catch (error) {
      this.said.textContent = error.message;
    }
    this.look();
  }

  async act(path, options) {
    try {
      await askJson(path, options);
    } catch (error) {
      this.said.textContent = error.message;
    }
    this.look();
  }

  close() {
    clearTimeout(this.timer);
  }
}
