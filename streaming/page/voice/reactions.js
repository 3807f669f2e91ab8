// What each server event does to a conversation, beyond the turns it is shown as.

import { int16FromBase64 } from "./pcm.js";
import { Problem } from "./problems.js";

export const REACTIONS = {
  "session.created": (talk) => talk.configure(talk.settings),
  "session.updated": (talk) => talk.ready(),
  "input_audio_buffer.speech_started": (talk) => {
    talk.interrupt();
    talk.become("hearing");
  },
  "input_audio_buffer.speech_stopped": (talk) => talk.become("thinking"),
  "conversation.item.input_audio_transcription.completed": (talk, event) => {
    if (event.transcript.trim() === "" && talk.state === "thinking") talk.become("listening");
  },
  "conversation.item.input_audio_transcription.failed": (talk) => talk.become("listening"),
  "response.created": (talk, event) => {
    talk.response = event.response.id;
    if (talk.state === "listening") talk.become("thinking");
  },
  "response.output_audio.delta": (talk, event) => {
    if (talk.silenced.has(event.response_id)) return;
    const pcm = int16FromBase64(event.delta);
    talk.turns.received(event.response_id, pcm.length);
    talk.fire("reply", { item: event.item_id, pcm });
    talk.player.play(event.item_id, pcm);
  },
  "response.output_audio.done": (talk, event) => {
    if (!talk.silenced.has(event.response_id)) talk.player.finish(event.item_id);
  },
  "response.done": (talk, event) => {
    if (talk.response === event.response.id) talk.response = null;
    const reply = talk.turns.ofResponse(event.response.id)?.reply;
    if (talk.state === "thinking" && !reply?.received) talk.become("listening");
    if (event.response.status === "failed") {
      talk.fire("problem", { problem: new Problem("failed", reply?.error) });
    }
  },
  "motet.turn.timings": (talk, event) => {
    const turn = talk.turns.ofResponse(event.response_id);
    if (turn) talk.measure(turn);
  },
  error: (talk, { error }) => {
    // Ours to mend, not the reader's: a cancel or a truncate that came too late, say.
    if (error.type === "invalid_request_error") console.warn(error.code, error.message);
    else talk.fire("problem", { problem: new Problem("failed", error.message) });
  },
};
