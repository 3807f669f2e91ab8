// What can go wrong while talking, said in plain words, with what the reader can do about it.

const WORDS = {
  insecure: {
    title: "The microphone needs a secure page",
    text:
      "Browsers open a microphone only over https, or on this same machine at localhost. " +
      "You can still type below, and read the answer.",
  },
  "microphone-missing": {
    title: "No microphone was found",
    text: "Plug one in, or type below: the reply is spoken all the same.",
    action: "Try again",
  },
  "microphone-denied": {
    title: "The microphone is blocked",
    text:
      "Allow it for this page (the icon beside the address) and try again. " +
      "You can also type below.",
    action: "Try again",
  },
  "microphone-busy": {
    title: "The microphone can't be opened",
    text: "Another program may be using it. Close that and try again, or type below.",
    action: "Try again",
  },
  "microphone-gone": {
    title: "The microphone was unplugged",
    text: "Connect it and press Talk again. You can also type below.",
  },
  full: {
    title: "All places are taken",
    text: "This server talks to a set number of people at once. Try again in a moment.",
    action: "Try again",
  },
  key: {
    title: "This server asks for a key",
    text: "It stays in this tab and is forgotten when you close it.",
    action: "Use this key",
    asksKey: true,
  },
  "key-wrong": {
    title: "That key was not accepted",
    text: "Check it for missing characters. It stays in this tab only.",
    action: "Use this key",
    asksKey: true,
  },
  policy: { title: "The server ended the conversation", text: "", action: "Start again" },
  unreachable: {
    title: "The server can't be reached",
    text: "It may be stopped, or the network is down.",
    action: "Try again",
  },
  lost: { title: "The connection was lost", text: "", action: "Try now" },
  failed: { title: "The reply failed", text: "The conversation goes on: just say it again." },
  unsupported: {
    title: "This browser is too old for talking",
    text: "It lacks AudioWorklet. A current Firefox, Chrome, Edge or Safari has it.",
  },
};

export class Problem extends Error {
  /** `code` is a key of the table above; `detail` is what the browser or server said about it. */
  constructor(code, detail = "") {
    super(detail || code);
    this.code = code;
    this.detail = detail;
  }

  /** {title, text, action, asksKey, detail} to show; of a key, the server tells programs how. */
  get words() {
    const words = WORDS[this.code];
    return { ...words, detail: words.asksKey ? "" : this.detail };
  }
}
