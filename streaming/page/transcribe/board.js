// The recordings of this page: begun, watched until they are over, kept in order.

const PERIOD_MS = 1000;
const OVER = new Set(["completed", "failed", "cancelled"]);

export const isOver = ({ state }) => OVER.has(state);

/** Tells `change` with {recording} as something becomes known; null when the list itself changed. */
export class Board extends EventTarget {
  constructor(server) {
    super();
    this.server = server;
    this.recordings = [];
    this.timer = null;
  }

  tell(recording) {
    this.dispatchEvent(new CustomEvent("change", { detail: { recording } }));
  }

  async restore() {
    const known = await this.server.list();
    this.recordings = known.map((fields) => ({ file: null, heard: [], result: null, ...fields }));
    this.tell(null);
    this.watch();
  }

  /** Takes files in; each is a recording from now on, the first of them is returned. */
  add(files, options) {
    const fresh = [...files].map((file) => ({
      id: "",
      name: file.name,
      file,
      options,
      state: "uploading",
      fraction: 0,
      heard: [],
      result: null,
      error: "",
      stop: new AbortController(),
    }));
    this.recordings.unshift(...fresh);
    this.tell(null);
    this.inTurn(fresh);
    return fresh[0];
  }

  /** One upload at a time: two at once only make both late. */
  async inTurn(recordings) {
    for (const recording of recordings) {
      if (!recording.stop.signal.aborted) await this.begin(recording);
    }
  }

  async begin(recording) {
    const changed = (fields) => {
      Object.assign(recording, fields);
      this.tell(recording);
    };
    try {
      await this.server.begin(recording.file, recording.options, changed, recording.stop.signal);
    } catch (error) {
      if (error.name === "AbortError") changed({ state: "cancelled" });
      else changed({ state: "failed", error: error.message });
    }
    this.watch();
  }

  watch() {
    if (this.timer === null && this.server.look) this.timer = setTimeout(() => this.look(), PERIOD_MS);
  }

  async look() {
    const open = this.recordings.filter((one) => one.id && !isOver(one));
    for (const recording of open) await this.refresh(recording).catch(() => {});
    this.timer = null;
    if (this.recordings.some((one) => one.id && !isOver(one))) this.watch();
  }

  /** Fetches what is missing of a recording: its state, its result. */
  async refresh(recording) {
    Object.assign(recording, await this.server.look(recording));
    this.tell(recording);
  }

  async cancel(recording) {
    recording.stop?.abort();
    if (recording.id) {
      Object.assign(recording, await this.server.cancel(recording));
      this.tell(recording);
    }
  }

  async remove(recording) {
    recording.stop?.abort();
    await this.server.remove(recording);
    this.recordings = this.recordings.filter((one) => one !== recording);
    this.tell(null);
  }

  close() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.server.durable) for (const { stop } of this.recordings) stop?.abort();
  }
}
