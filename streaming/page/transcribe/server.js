// The server's routes for recordings: jobs where it keeps them, one long answer where it doesn't.

import { Refused, ask, askJson, events } from "../http.js";
import { authorization } from "../voice/client.js";

export const FORMATS = [
  ["text", "Text", "txt"],
  ["srt", "SRT", "srt"],
  ["vtt", "WebVTT", "vtt"],
  ["json", "JSON", "json"],
  ["verbose_json", "JSON with words", "json"],
  ["diarized_json", "JSON with speakers", "json"],
];

/** Uploads a form; `onProgress(fraction)` while its bytes go out. */
function upload(path, form, { onProgress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(authorization())) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total);
    request.onload = () => {
      const said = request.response;
      if (request.status < 300) resolve(said);
      else reject(new Refused(request.status, said?.error?.message ?? `HTTP ${request.status}`));
    };
    request.onerror = () => reject(new Refused(0, "The server can't be reached."));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** Recordings as durable jobs. `changed(fields)` takes what became known of one. */
export class JobServer {
  constructor(pipeline) {
    this.pipeline = pipeline;
    this.durable = true;
  }

  async list() {
    const { data } = await askJson("/v1/jobs?limit=50");
    return data.filter(({ pipeline }) => pipeline === this.pipeline).map(fromJob);
  }

  async begin(file, options, changed, signal) {
    const form = new FormData();
    form.append("request", JSON.stringify({ pipeline: this.pipeline, options }));
    form.append("file", file, file.name);
    const onProgress = (fraction) => changed({ state: "uploading", fraction });
    changed(fromJob(await upload("/v1/jobs", form, { onProgress, signal })));
  }

  /** Looks at one again; the fields that a recording takes. */
  async look({ id }) {
    return fromJob(await askJson(`/v1/jobs/${id}?partial=true`));
  }

  async download({ id }, format) {
    return (await ask(`/v1/jobs/${id}/result?response_format=${format}`)).blob();
  }

  async cancel({ id }) {
    return fromJob(await askJson(`/v1/jobs/${id}/cancel`, { method: "POST" }));
  }

  async remove({ id }) {
    if (id) await ask(`/v1/jobs/${id}`, { method: "DELETE" });
  }
}

function fromJob(job) {
  return {
    id: job.id,
    name: job.input.name || "recording",
    state: job.state,
    fraction: job.progress.fraction,
    error: job.error?.message ?? "",
    madeAt: job.created_at,
    ...(job.partial ? { heard: job.partial.chunks } : {}),
    ...(job.result ? { result: job.result } : {}),
  };
}

/** Recordings one answer at a time, where the server keeps no jobs: nothing outlives the page. */
export class DirectServer {
  constructor(pipeline) {
    this.pipeline = pipeline;
    this.durable = false;
  }

  async list() {
    return [];
  }

  async begin(file, options, changed, signal) {
    const form = this.form(file, options, "diarized_json");
    form.append("stream", "true");
    changed({ state: "running", fraction: null });
    const answer = await ask("/v1/audio/transcriptions", { method: "POST", body: form, signal });
    const heard = [];
    const segments = [];
    for await (const event of events(answer.body)) {
      if (event.type === "transcript.text.delta") {
        heard.push({ start: null, text: event.delta });
        changed({ heard: [...heard] });
      } else if (event.type === "transcript.text.segment") segments.push({ ...event, words: [] });
      else if (event.type === "error") throw new Refused(500, event.error.message);
      else if (event.type === "transcript.text.done") {
        const duration = segments.at(-1)?.end ?? 0;
        changed({ state: "completed", fraction: 1, result: { text: event.text, duration, segments } });
      }
    }
  }

  form(file, options, format) {
    const form = new FormData();
    form.append("model", this.pipeline);
    form.append("response_format", format);
    if (options.language) form.append("language", options.language);
    for (const name of ["min_speakers", "max_speakers"]) {
      if (options[name] && format === "diarized_json") form.append(name, options[name]);
    }
    if (format === "verbose_json") {
      for (const part of ["word", "segment"]) form.append("timestamp_granularities[]", part);
    }
    form.append("file", file, file.name);
    return form;
  }

  async download({ file, options }, format) {
    const body = this.form(file, options, format);
    return (await ask("/v1/audio/transcriptions", { method: "POST", body })).blob();
  }

  async remove() {}
}
