// The transcribe view: drop recordings, read what they say as it comes, listen along, take it away.

import { el, icon } from "../dom.js";
import { Refused, ask } from "../http.js";
import { Board, isOver } from "../transcribe/board.js";
import { Deliveries } from "../transcribe/deliveries.js";
import { Options } from "../transcribe/options.js";
import { DirectServer, FORMATS, JobServer } from "../transcribe/server.js";
import { Transcript, about } from "../transcribe/transcript.js";

export const id = "transcribe";
export const title = "Transcribe";

const takesFiles = (pipeline) => pipeline.accepts?.includes("MediaFile");

/** A pipeline that takes whole files is there to drop them on. */
export function applies(pipelines) {
  return pipelines.some(takesFiles);
}

/** Jobs where the server keeps them, one answer at a time where it doesn't. */
async function serverFor(pipeline) {
  try {
    await ask("/v1/jobs?limit=1");
    return new JobServer(pipeline);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return new DirectServer(pipeline);
    throw error;
  }
}

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

class TranscribeView {
  constructor({ main, tools, pipelines }) {
    this.pipeline = pipelines.find(takesFiles).name;
    this.rows = new Map();
    this.tools = tools;
    this.closed = false;
    this.build(main);
    this.listen(main);
    this.open();
  }

  build(main) {
    this.input = el("input", { type: "file", multiple: true, accept: "audio/*,video/*", hidden: true });
    this.choose = el("button", { type: "button", class: "solid", on: { click: () => this.input.click() } }, "Choose files");
    this.options = new Options();
    this.heading = el("h1", {}, "Drop a recording.");
    this.lead = el("p", { class: "lead" }, "Audio or video, as long as you like. You get every word with its time, and who said it.");
    this.intro = el("div", { class: "drop-intro" }, this.heading, this.lead);
    this.list = el("ol", { class: "recordings", "aria-label": "Recordings" });
    this.problem = el("p", { class: "bad", role: "alert" });
    this.side = el("div", { class: "side" }, this.intro, el("div", { class: "ask" }, this.choose, this.options.node), this.problem, this.list);
    this.transcript = new Transcript({
      onDownload: (recording, format) => this.download(recording, format),
      onList: () => this.side.scrollIntoView({ behavior: "smooth" }),
    });
    this.live = el("p", { class: "unseen", "aria-live": "polite" });
    this.root = el("div", { class: "transcribe-view empty" }, this.side, this.transcript.node, this.input, this.live);
    main.append(this.root);
  }

  listen() {
    this.input.addEventListener("change", () => {
      this.add(this.input.files);
      this.input.value = "";
    });
    const over = (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      this.root.classList.add("dropping");
    };
    const drop = (event) => {
      event.preventDefault();
      this.root.classList.remove("dropping");
      this.add(event.dataTransfer.files);
    };
    const leave = (event) => event.relatedTarget === null && this.root.classList.remove("dropping");
    this.handlers = { dragover: over, drop, dragleave: leave };
    for (const [type, run] of Object.entries(this.handlers)) window.addEventListener(type, run);
  }

  async open() {
    try {
      const server = await serverFor(this.pipeline);
      if (this.closed) return;
      this.board = new Board(server);
      this.board.addEventListener("change", ({ detail }) => this.changed(detail.recording));
      if (server.durable) this.addDeliveries();
      await this.board.restore();
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  addDeliveries() {
    this.deliveries = new Deliveries();
    this.tools.append(this.deliveries.button);
    this.root.append(this.deliveries.dialog);
  }

  add(files) {
    if (files.length === 0 || !this.board) return;
    this.select(this.board.add(files, this.options.values));
  }

  changed(recording) {
    if (recording === null) this.showList();
    else {
      this.showRow(recording);
      this.announce(recording);
      if (recording === this.selected) this.transcript.show(recording);
    }
  }

  showList() {
    const { recordings } = this.board;
    this.root.classList.toggle("empty", recordings.length === 0);
    if (!recordings.includes(this.selected)) this.selected = null;
    this.rows = new Map(recordings.map((recording) => [recording, this.rows.get(recording) ?? this.row(recording)]));
    this.list.replaceChildren(...[...this.rows.values()].map(({ node }) => node));
    for (const recording of recordings) this.showRow(recording);
    this.transcript.node.hidden = this.selected === null;
    if (this.selected === null && recordings.length > 0) this.select(recordings[0]);
  }

  row(recording) {
    const name = el("b", {}, recording.name);
    const state = el("small", {});
    const bar = el("progress", { max: 1, "aria-hidden": "true" });
    const pick = el("button", { type: "button", class: "pick", on: { click: () => this.select(recording) } }, name, state, bar);
    const away = el("button", { type: "button", class: "quiet", on: { click: () => this.away(recording) } }, icon("close"));
    return { node: el("li", {}, pick, away), name, state, bar, pick, away };
  }

  showRow(recording) {
    const row = this.rows.get(recording);
    if (!row) return;
    const { state, fraction, name, error } = recording;
    row.state.textContent = state === "completed" ? "Done." : error ? `Failed: ${error}` : about(recording);
    row.state.classList.toggle("bad", state === "failed");
    row.bar.hidden = isOver(recording);
    if (state === "queued" || fraction === null) row.bar.removeAttribute("value");
    else row.bar.value = fraction;
    row.pick.toggleAttribute("aria-current", recording === this.selected);
    row.away.setAttribute("aria-label", `${isOver(recording) ? "Remove" : "Stop"} ${name}`);
  }

  async select(recording) {
    this.selected = recording;
    for (const one of this.board.recordings) this.showRow(one);
    this.transcript.node.hidden = false;
    this.transcript.show(recording);
    if (recording.state === "completed" && !recording.result) await this.tried(this.board.refresh(recording));
  }

  away(recording) {
    return this.tried(isOver(recording) ? this.board.remove(recording) : this.board.cancel(recording));
  }

  async tried(work) {
    this.problem.textContent = "";
    await work.catch((error) => (this.problem.textContent = error.message));
  }

  async download(recording, format) {
    const extension = FORMATS.find(([name]) => name === format)[2];
    const stem = recording.name.replace(/\.[^.]+$/, "");
    const kind = extension === "json" && format !== "json" ? `.${format.split("_")[0]}` : "";
    save(await this.board.server.download(recording, format), `${stem}${kind}.${extension}`);
  }

  announce({ name, state, error }) {
    const said = { completed: `${name} is done.`, failed: `${name} failed: ${error}` }[state];
    if (said && this.live.textContent !== said) this.live.textContent = said;
  }

  close() {
    this.closed = true;
    for (const [type, run] of Object.entries(this.handlers)) window.removeEventListener(type, run);
    this.board?.close();
    this.deliveries?.close();
    this.transcript.close();
  }
}

/** Shows the view in `place`; the function that comes back takes it away again. */
export function mount(place) {
  const view = new TranscribeView(place);
  return () => view.close();
}
