// Requests to this server: the key sent along, refusals in its own words, streams as events.

import { authorization } from "./voice/client.js";

/** What the server said instead of an answer; `status` 401 and 403 mean that a key is needed. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new Refused(answer.status, body?.error?.message ?? `HTTP ${answer.status}`);
}

export async function ask(path, { method = "GET", body, signal } = {}) {
  const json = body !== undefined && !(body instanceof FormData);
  const headers = { ...authorization(), ...(json ? { "Content-Type": "application/json" } : {}) };
  const sent = json ? JSON.stringify(body) : body;
  return checked(await fetch(path, { method, headers, body: sent, signal, cache: "no-store" }));
}

export const askJson = async (path, options) => (await ask(path, options)).json();

/** The data of server-sent events, one object each. */
export async function* events(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
