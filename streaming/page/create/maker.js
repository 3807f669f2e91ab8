// Asks the server for pictures and clips: progress and previews on the way, what was saved at the end.

import { Refused, ask, askJson, events } from "../http.js";

const PERIOD_MS = 400;
const PREVIEWS = 3;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const pngUrl = (base64) => `data:image/png;base64,${base64}`;

/** A request's fields from what the form says; its savings are always said, on or off. */
export function wishes({ prompt, seed, steps, size, guidance, interval, cache }) {
  return {
    prompt,
    ...(seed !== null ? { seed } : {}),
    ...(steps ? { steps } : {}),
    ...(size ? { size } : {}),
    ...(guidance !== null ? { guidance } : {}),
    guidance_skip: { interval },
    cache: cache ? { threshold: cache } : false,
  };
}

/**
 * Makes one thing; `told({fraction})` and `told({preview})` on the way. Resolves to
 * {kind, url, meta, size, seconds}; aborting `signal` stops the work on the server too.
 */
export class Maker {
  /** `models` are the names of the pipelines that make a "picture" and a "clip". */
  constructor(models) {
    this.models = models;
  }

  make(kind, request, told, signal) {
    const body = { model: this.models[kind], ...request };
    return kind === "picture" ? this.picture(body, told, signal) : this.clip(body, told, signal);
  }

  async picture(body, told, signal) {
    const streamed = { ...body, stream: true, partial_images: PREVIEWS, progress: true };
    const answer = await ask("/v1/images/generations", { method: "POST", body: streamed, signal });
    for await (const event of events(answer.body)) {
      if (event.type === "image_generation.progress") told({ fraction: event.done / event.total });
      else if (event.type === "image_generation.partial_image") told({ preview: pngUrl(event.b64_json) });
      else if (event.type === "error") throw new Refused(500, event.error.message);
      else if (event.type === "image_generation.completed") {
        return { kind: "picture", url: pngUrl(event.b64_json), compared: pngUrl(event.b64_json), meta: event.motet, size: event.size };
      }
    }
    throw new Refused(500, "The answer ended without a picture.");
  }

  async clip(body, told, signal) {
    let video = await askJson("/v1/videos", { method: "POST", body: { ...body, previews: PREVIEWS }, signal });
    let [shown, preview] = [0, null];
    try {
      while (!["completed", "failed"].includes(video.status)) {
        await pause(PERIOD_MS);
        video = await askJson(`/v1/videos/${video.id}`, { signal });
        told({ fraction: video.status === "queued" ? null : video.progress / 100 });
        const { previews = 0 } = video.motet;
        if (video.status === "in_progress" && previews > shown) {
          if (preview) URL.revokeObjectURL(preview);
          [shown, preview] = [previews, await this.part(video, "thumbnail", signal)];
          told({ preview });
        }
      }
      if (video.status === "failed") throw new Refused(500, video.error.message);
      const [url, still, compared] = await Promise.all(["video", "thumbnail", "spritesheet"].map((part) => this.part(video, part, signal)));
      return { kind: "clip", url, still, compared, meta: video.motet, size: video.size, seconds: Number(video.seconds) };
    } finally {
      // What was fetched lives here from now on; what was stopped isn't wanted any more.
      ask(`/v1/videos/${video.id}`, { method: "DELETE" }).catch(() => {});
    }
  }

  async part({ id }, variant, signal) {
    const answer = await ask(`/v1/videos/${id}/content?variant=${variant}`, { signal });
    return URL.createObjectURL(await answer.blob());
  }
}

/** Lets go of the memory that a made thing holds. */
export function release({ url, still, compared }) {
  for (const one of [url, still, compared]) if (one?.startsWith("blob:")) URL.revokeObjectURL(one);
}
