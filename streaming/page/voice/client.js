// A small client of the OpenAI Realtime protocol over WebSocket, with the closes put into words.

import { Problem } from "./problems.js";
import { base64FromInt16 } from "./pcm.js";

const MAX_UNSENT_BYTES = 1 << 20;
const KEY_PLACE = "motet.key";

export const storedKey = {
  get: () => sessionStorage.getItem(KEY_PLACE) ?? "",
  set(key) {
    sessionStorage.setItem(KEY_PLACE, key);
    window.dispatchEvent(new Event("motet-key"));
  },
};

/** Headers for the server's HTTP routes: the key, where there is one. */
export function authorization() {
  const key = storedKey.get();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

function socketUrl(model) {
  const url = new URL("/v1/realtime", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("model", model);
  url.searchParams.set("timings", "1");
  return url;
}

/** Browsers hide why a handshake failed (401, 403, 503, no server); an ordinary request tells. */
async function refusal() {
  try {
    const answer = await fetch("/v1/models", { headers: authorization(), cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) {
      return new Problem(storedKey.get() ? "key-wrong" : "key");
    }
    return answer.ok ? new Problem("lost") : new Problem("unreachable", `HTTP ${answer.status}`);
  } catch {
    return new Problem("unreachable");
  }
}

async function closed({ code, reason }, opened) {
  if (code === 1013) return new Problem("full", reason);
  if (code === 1008 && /key|auth/i.test(reason)) {
    return new Problem(storedKey.get() ? "key-wrong" : "key", reason);
  }
  if (code === 1008 || code >= 4000) return new Problem("policy", reason);
  return opened ? new Problem("lost", reason) : refusal();
}

export class RealtimeClient {
  /**
   * `onEvent(event)` gets each server event, `onClose(problem)` comes once: null after `close()`.
   * `problem.code` "lost" is the one worth a reconnect.
   */
  constructor({ model, onEvent, onClose }) {
    const key = storedKey.get();
    const protocols = ["realtime", ...(key ? [`openai-insecure-api-key.${key}`] : [])];
    this.socket = new WebSocket(socketUrl(model), protocols);
    this.wanted = true;
    this.opened = false;
    this.dropped = 0;
    this.socket.onmessage = ({ data }) => {
      this.opened = true;
      if (this.wanted) onEvent(JSON.parse(data));
    };
    this.socket.onclose = async (event) => {
      const problem = this.wanted ? await closed(event, this.opened) : null;
      onClose(problem);
    };
  }

  get ready() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  get over() {
    return this.socket.readyState === WebSocket.CLOSED;
  }

  send(type, fields = {}) {
    if (this.ready) this.socket.send(JSON.stringify({ type, ...fields }));
  }

  /** Sends a frame of speech; false when the network is so far behind that it was let go. */
  sendAudio(pcm) {
    if (!this.ready || this.socket.bufferedAmount > MAX_UNSENT_BYTES) {
      this.dropped += 1;
      return false;
    }
    this.send("input_audio_buffer.append", { audio: base64FromInt16(pcm) });
    return true;
  }

  close() {
    this.wanted = false;
    this.socket.close(1000);
  }
}
