// The conversation as the page shows it: realtime server events in, a list of turns out. No I/O.
//
// A turn: {id, user, reply, timings, voiceStartMs, heardAt, heardMs}. `user` is {item, text, final, failed},
// `reply` is {response, item, segments, received, played, status, error, calls, cut}; either may
// be null. `received` and `played` count samples of the reply's audio. `voiceStartMs` is where on
// the stream that we sent the user began to speak, `heardAt` when the reply was first heard on the
// page's clock, `heardMs` how long that was after the last sample of speech had been sent.

const SAMPLES_PER_MS = 24;
const MAX_TURNS = 100;

function blankReply(response) {
  return {
    response,
    item: null,
    segments: [],
    received: 0,
    played: 0,
    status: "in_progress",
    error: "",
    calls: [],
    cut: null,
  };
}

/** How many characters of a reply have been spoken by now. */
export function spokenLength(reply) {
  if (reply.cut !== null) return reply.cut;
  let length = 0;
  for (const [index, segment] of reply.segments.entries()) {
    const end = reply.segments[index + 1]?.start ?? reply.received;
    const audible = end - segment.start;
    const share = audible > 0 ? (reply.played - segment.start) / audible : reply.received ? 0 : 1;
    if (share >= 1 || (audible === 0 && reply.played >= end)) length += segment.text.length;
    else return length + Math.ceil(Math.max(0, share) * segment.text.length);
  }
  return length;
}

export function replyText(reply) {
  return reply.segments.map((segment) => segment.text).join("");
}

export class Turns {
  constructor() {
    this.list = [];
    this.count = 0;
  }

  /** Applies one server event; returns the turn it changed, or null. */
  apply(event) {
    return CHANGES[event.type]?.(this, event) ?? null;
  }

  open() {
    this.count += 1;
    const turn = { id: this.count, user: null, reply: null, timings: null };
    Object.assign(turn, { voiceStartMs: null, heardAt: null, heardMs: null });
    this.list.push(turn);
    if (this.list.length > MAX_TURNS) this.list.shift();
    return turn;
  }

  ofItem(item) {
    return this.list.findLast((turn) => turn.user?.item === item || turn.reply?.item === item);
  }

  ofResponse(response) {
    return this.list.findLast((turn) => turn.reply?.response === response);
  }

  userTurn(item) {
    const known = this.ofItem(item);
    if (known) return known;
    const turn = this.open();
    turn.user = { item, text: "", final: false, failed: false };
    return turn;
  }

  drop(turn) {
    this.list = this.list.filter((one) => one !== turn);
    turn.dropped = true;
    return turn;
  }

  /** `samples` more of the audio of `response` have come. */
  received(response, samples) {
    const turn = this.ofResponse(response);
    if (turn) turn.reply.received += samples;
    return turn ?? null;
  }

  /** The item has been heard up to `playedMs`. */
  played(item, playedMs) {
    const turn = this.ofItem(item);
    if (turn?.reply) turn.reply.played = playedMs * SAMPLES_PER_MS;
    return turn ?? null;
  }

  /** The item was cut off here: what wasn't heard isn't part of the conversation. */
  cut(item, playedMs) {
    const turn = this.played(item, playedMs);
    if (turn?.reply) turn.reply.cut = spokenLength(turn.reply);
    return turn;
  }
}

function transcribed(turns, { item_id: item, transcript }) {
  const turn = turns.userTurn(item);
  turn.user.text = transcript.trim();
  turn.user.final = true;
  return turn.user.text === "" && turn.reply === null ? turns.drop(turn) : turn;
}

function itemAdded(turns, { item }) {
  if (item.type !== "message" || item.role !== "user") return null;
  const turn = turns.userTurn(item.id);
  const typed = item.content.filter((part) => part.type === "input_text");
  if (typed.length > 0) {
    turn.user.text = typed.map((part) => part.text).join(" ");
    turn.user.final = true;
  }
  return turn;
}

function responseCreated(turns, { response }) {
  const last = turns.list.at(-1);
  const turn = last && last.reply === null ? last : turns.open();
  turn.reply = blankReply(response.id);
  return turn;
}

function outputAdded(turns, { response_id: response, item }) {
  const turn = turns.ofResponse(response);
  if (!turn) return null;
  if (item.type === "function_call") turn.reply.calls.push(item.name);
  else turn.reply.item = item.id;
  return turn;
}

function written(turns, { response_id: response, delta }) {
  const turn = turns.ofResponse(response);
  if (!turn) return null;
  const { segments, received } = turn.reply;
  if (segments.at(-1)?.start === received) segments.at(-1).text += delta;
  else segments.push({ text: delta, start: received });
  return turn;
}

function responseDone(turns, { response }) {
  const turn = turns.ofResponse(response.id);
  if (!turn) return null;
  turn.reply.status = response.status;
  turn.reply.error = response.status_details?.error?.message ?? "";
  return turn;
}

const CHANGES = {
  "input_audio_buffer.speech_started": (turns, event) => {
    const turn = turns.userTurn(event.item_id);
    turn.voiceStartMs = event.audio_start_ms;
    return turn;
  },
  "conversation.item.added": itemAdded,
  "conversation.item.input_audio_transcription.delta": (turns, event) => {
    const turn = turns.userTurn(event.item_id);
    if (!turn.user.final) turn.user.text += event.delta;
    return turn;
  },
  "conversation.item.input_audio_transcription.completed": transcribed,
  "conversation.item.input_audio_transcription.failed": (turns, event) => {
    const turn = turns.userTurn(event.item_id);
    Object.assign(turn.user, { failed: true, final: true });
    return turn;
  },
  "response.created": responseCreated,
  "response.output_item.added": outputAdded,
  "response.output_audio_transcript.delta": written,
  "response.output_text.delta": written,
  "response.done": responseDone,
  "motet.turn.timings": (turns, event) => {
    const turn = turns.ofResponse(event.response_id);
    if (turn) turn.timings = event;
    return turn;
  },
};
