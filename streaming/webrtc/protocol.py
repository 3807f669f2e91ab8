"""A call as a protocol: the realtime protocol inside, its audio taken out of the events.

It has the methods of `RealtimeProtocol` and answers with the same effects, so that the driver of
one drives the other; audio comes in by `listen` and goes out by `pull`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...components.audio import Resampler
from ...components.errors import BadInput
from ...components.frames import Frame, Samples
from ..realtime.codec import AudioDecoder, AudioFormat
from ..realtime.decode import decode
from ..realtime.effects import Effect, Event, MakeId, Send, random_ids
from ..realtime.faults import ClientError, error_body
from ..realtime.protocol import RealtimeProtocol
from .playout import RATE_HZ, Change, Playout

APPEND = "input_audio_buffer.append"
CLEARED = "output_audio_buffer.cleared"


class CallProtocol:
    """One call. `playout` is the one that the protocol inside was made with."""

    def __init__(
        self, inner: RealtimeProtocol, playout: Playout, new_id: MakeId | None = None
    ) -> None:
        self._inner = inner
        self._playout = playout
        self._new_id = new_id or random_ids()
        self._speech: dict[str, _Speech] = {}

    @property
    def session_id(self) -> str:
        """The id of the realtime session inside."""
        return self._inner.session_id

    def start(self) -> list[Effect]:
        """What happens before the client has said anything."""
        return self._translate(self._inner.start(), 0.0)

    def greeting(self) -> Event:
        """What one that joins later is told first."""
        event_id = self._new_id("event")
        return {"type": "session.created", "event_id": event_id, "session": self._inner.session()}

    def receive(self, message: str | bytes | dict[str, Any], now_s: float) -> list[Effect]:
        """A client's event. Audio doesn't come as events: it has a track."""
        try:
            raw = decode(message)
        except BadInput:
            return self._translate(self._inner.receive(message, now_s), now_s)
        if raw.get("type") == APPEND:
            return [self._refused(raw.get("event_id"))]
        return self._translate(self._inner.receive(raw, now_s), now_s)

    def listen(self, pcm: Samples, rate_hz: int, now_s: float, *, live: bool) -> list[Effect]:
        """The caller's audio; see `RealtimeProtocol.listen`."""
        return self._translate(self._inner.listen(pcm, rate_hz, now_s, live=live), now_s)

    def hear(self, turn: int, node: str, frame: Frame, now_s: float) -> list[Effect]:
        """A frame from the pipeline's session."""
        return self._translate(self._inner.hear(turn, node, frame, now_s), now_s)

    def pull(self, now_s: float) -> tuple[Samples | None, list[Effect]]:
        """The next 20 ms to be heard, at 24 kHz, None for silence; and what the client is told."""
        return self._playout.pull(now_s), self._told(now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Let time pass; call it at `next_deadline`, or more often."""
        return self._translate(self._inner.tick(now_s), now_s)

    def next_deadline(self) -> float:
        """When `tick` has something to do, if nothing else happens before."""
        return self._inner.next_deadline()

    def refuse(self, error: BadInput) -> list[Effect]:
        """Tell the client of an error outside its events, such as one too large."""
        return self._inner.refuse(error)

    def _translate(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """The effects of the protocol inside: its audio goes to the playout, and what happens to
        that is told. What the protocol itself says of it counts where nothing was to be cleared."""
        if not any(isinstance(effect, Send) for effect in effects):
            return effects
        kept: list[Effect] = []
        asked: Send | None = None
        for effect in effects:
            if not isinstance(effect, Send):
                kept.append(effect)
            elif effect.event["type"] == CLEARED:
                asked = effect
            elif not self._spoken(effect.event):
                kept.append(effect)
        told = self._told(now_s)
        if asked is not None and not any(_is_cleared(effect) for effect in told):
            told.append(asked)
        return kept + told

    def _spoken(self, event: Event) -> bool:
        """Take the audio out of an event; whether that is all there is in it."""
        kind = event["type"]
        if kind == "response.created":
            wanted = event["response"]["audio"]["output"]["format"]["type"]
            self._speech[event["response"]["id"]] = _Speech(AudioFormat(wanted))
        elif kind == "response.output_audio.delta":
            speech = self._speech[event["response_id"]]
            speech.item_id = event["item_id"]
            self._playout.add(event["response_id"], event["item_id"], speech.push(event["delta"]))
            return True
        elif kind == "response.done":
            response_id = event["response"]["id"]
            speech = self._speech.pop(response_id)
            self._playout.add(response_id, speech.item_id, speech.flush())
            self._playout.finish(response_id)
        return False

    def _told(self, now_s: float) -> list[Effect]:
        """What the client is told of the playout: of items cut off also where."""
        told: list[Effect] = []
        for change in self._playout.changes():
            kind = f"output_audio_buffer.{change.kind}"
            told.append(self._event(kind, response_id=change.response_id))
            told += self._truncated(change, now_s)
        return told

    def _truncated(self, change: Change, now_s: float) -> list[Effect]:
        """Cut items off as a client that plays for itself would ask for it."""
        told: list[Effect] = []
        for item_id, heard_ms in change.heard.items():
            cut = {"item_id": item_id, "content_index": 0, "audio_end_ms": int(heard_ms)}
            effects = self._inner.receive({"type": "conversation.item.truncate", **cut}, now_s)
            # An item that isn't in the conversation, or no more, has nothing to be cut off.
            known = [e for e in effects if not isinstance(e, Send) or e.event["type"] != "error"]
            told += self._translate(known, now_s)
        return told

    def _event(self, kind: str, **fields: Any) -> Send:
        return Send({"type": kind, "event_id": self._new_id("event"), **fields})

    def _refused(self, event_id: object) -> Send:
        error = ClientError(
            "invalid_value",
            f"{APPEND} isn't taken in a WebRTC call: its audio comes by the media track.",
            "type",
        )
        said = event_id if isinstance(event_id, str) else None
        return self._event("error", error=error_body(error, said))


class _Speech:
    """One response's audio from the form that its events have."""

    def __init__(self, format: AudioFormat) -> None:
        self.item_id = ""
        self._decoder = AudioDecoder(format)
        self._resampler = Resampler(format.rate_hz, RATE_HZ)

    def push(self, delta: str) -> Samples:
        return np.asarray(self._resampler.push(self._decoder.push(delta)), np.int16)

    def flush(self) -> Samples:
        return self._resampler.flush()


def _is_cleared(effect: Effect) -> bool:
    return isinstance(effect, Send) and effect.event["type"] == CLEARED
