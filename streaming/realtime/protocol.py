"""The OpenAI Realtime protocol as a pure state machine: events and frames in, effects out.

The shell hands in what a client says (`receive`), what the pipeline's session says (`hear`) and
the time (`tick`), and carries out the effects in order. The clock is any that only goes up; ids
and the time of day come from outside, so that a session can be replayed exactly.

A response to speech starts when the transcript is there, since the language model needs text:
`response.created` follows the transcription events. A reply that a noise without words cut off is
made again (see `floor`). Audio goes out as fast as it is made.
"""

from __future__ import annotations

import math
from typing import Any

from ...components.errors import BadInput
from ...components.frames import (
    End,
    Fault,
    Frame,
    Samples,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Transcript,
)
from ...pipelines.playback import Playback
from .decode import decode, parse
from .effects import Close, Effect, Event, Feed, MakeId, random_ids
from .events import (
    AnyClientEvent,
    AudioAppend,
    AudioClear,
    AudioCommit,
    ItemCreate,
    ItemDelete,
    ItemRetrieve,
    ItemTruncate,
    ResponseCancel,
    ResponseCreate,
    ResponsePatch,
    SessionUpdate,
)
from .faults import ClientError, error_body
from .floor import Floor
from .inputbuffer import InputBuffer
from .itemrequests import ItemRequests
from .merge import merged, overridden
from .response import Plan, Response
from .settings import Offer, Settings
from .state import State


class RealtimeProtocol:
    """One session. Every method answers with the effects to carry out, in order.

    `expires_at` is the time of day (Unix seconds) at which the session ends, `max_age_s` the same
    on the protocol's clock; `idle_s` ends one whose client says nothing. `timings` adds the event
    `motet.turn.timings`, for clients that ask for it. `playback` knows what the client has heard,
    where something does; without, it is reckoned from what was sent.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        now_s: float,
        settings: Settings | None = None,
        timings: bool = False,
        expires_at: int = 0,
        max_age_s: float = 3600.0,
        idle_s: float = 600.0,
        new_id: MakeId | None = None,
        playback: Playback | None = None,
    ) -> None:
        new_id = new_id or random_ids()
        self.session_id = new_id("sess")
        self._expires_at = expires_at
        self._expires_s = now_s + max_age_s
        self._idle_s = idle_s
        self._heard_s = now_s
        settings = settings or Settings.initial(offer)
        self._state = State(offer, settings, new_id, self._over, playback)
        self._buffer = InputBuffer(self._state)
        self._items = ItemRequests(self._state, self._buffer)
        self._floor = Floor(self._state, timings=timings)
        self._sources: dict[type[Frame], str] = {}
        self._closed = False

    @property
    def settings(self) -> Settings:
        """What is in force now."""
        return self._state.settings

    def start(self) -> list[Effect]:
        """What happens before anything is received: `session.created` first."""
        self._send_session("session.created")
        self._state.outbox.add(Feed(self.settings.turn_settings()))
        self._state.outbox.add(Feed(self.settings.transcription_settings()))
        return self._state.outbox.take()

    def receive(self, message: str | bytes | dict[str, Any], now_s: float) -> list[Effect]:
        """A client's event. One that can't be carried out is answered with `error`, no more."""
        self._heard_s = now_s
        event_id: str | None = None
        try:
            raw = decode(message)
            said = raw.get("event_id")
            event_id = said if isinstance(said, str) else None
            self._carry_out(parse(raw), now_s)
        except BadInput as error:
            self._state.outbox.send("error", error=error_body(error, event_id))
        return self._settle(now_s)

    def listen(
        self, pcm: Samples, rate_hz: int, now_s: float, *, live: bool = True
    ) -> list[Effect]:
        """Audio that comes beside the client's events; not `live`: silence put in for what didn't
        come, which is no sign of the client."""
        if live:
            self._heard_s = now_s
        self._buffer.hear(pcm, rate_hz, now_s)
        return self._settle(now_s)

    def hear(self, turn: int, node: str, frame: Frame, now_s: float) -> list[Effect]:
        """A frame from the pipeline's session."""
        if turn == 0:
            self._listen(node, frame, now_s)
        else:
            response = self._state.responses.hear(turn, node, frame, now_s)
            if response is not None:
                self._floor.heard(response)
        return self._settle(now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Let time pass; call it at `next_deadline`, or more often."""
        self._state.listening.tick(now_s)
        self._state.responses.tick(now_s)
        self._floor.tick(self._buffer.position_ms, now_s)
        if now_s >= self._expires_s:
            self._end(1001, "session_expired", "The session has reached its maximum age.")
        elif now_s >= self._idle_until_s():
            self._end(1000, "session_expired", "The session was idle for too long.")
        return self._settle(now_s)

    def next_deadline(self) -> float:
        """When `tick` has something to do, if nothing else happens before; infinite when nothing
        will ever be."""
        if self._closed:
            return math.inf
        state = self._state
        return min(
            self._expires_s,
            self._idle_until_s(),
            state.listening.deadline_s(),
            state.responses.deadline_s(),
            self._floor.deadline_s(),
        )

    def refuse(self, error: BadInput) -> list[Effect]:
        """Tell the client of an error that isn't in its event, such as a message too large."""
        self._state.outbox.send("error", error=error_body(error, None))
        return self._state.outbox.take()

    def _carry_out(self, event: AnyClientEvent, now_s: float) -> None:
        match event:
            case AudioAppend():
                self._buffer.append(event.audio, now_s)
            case SessionUpdate():
                self._update(event)
            case AudioCommit():
                self._buffer.commit(now_s)
            case AudioClear():
                self._floor.cleared()
                self._buffer.clear()
            case ItemCreate():
                self._items.create(event, now_s)
            case ItemDelete():
                self._items.delete(event)
            case ItemRetrieve():
                self._items.retrieve(event)
            case ItemTruncate():
                self._items.truncate(event, now_s)
            case ResponseCreate():
                self._respond(event.response or ResponsePatch(), now_s)
            case ResponseCancel():
                self._state.responses.cancel_by_id(event.response_id, now_s)
            case _:
                self._clear_output(now_s)

    def _update(self, event: SessionUpdate) -> None:
        state, before = self._state, self.settings
        after = merged(before, event.session, state.offer)
        if after.voice != before.voice and state.responses.spoke:
            raise ClientError(
                "cannot_update_voice",
                "Cannot update a conversation's voice if assistant audio is present.",
                "session.audio.output.voice",
            )
        state.settings = after
        self._buffer.use(after.input_format)
        if after.turn_settings() != before.turn_settings():
            state.outbox.add(Feed(after.turn_settings()))
        if after.transcription_settings() != before.transcription_settings():
            state.outbox.add(Feed(after.transcription_settings()))
        self._send_session("session.updated")

    def _respond(self, patch: ResponsePatch, now_s: float) -> None:
        if self.settings.kind == "transcription":
            raise ClientError(
                "invalid_request", "A transcription session makes no responses.", "type"
            )
        plan = Plan(
            overridden(self.settings, patch, self._state.offer),
            metadata=patch.metadata,
            in_conversation=patch.conversation != "none",
            items=self._items.input_of(patch),
        )
        self._floor.begin(plan, now_s)

    def _clear_output(self, now_s: float) -> None:
        """Silence the reply at once, for clients whose player the server keeps track of."""
        main = self._state.responses.main
        if main is not None:
            self._state.responses.cancel(main, "client_cancelled", now_s)
        self._floor.stop_playing(now_s)
        self._state.outbox.send(
            "output_audio_buffer.cleared", response_id=main.id if main is not None else ""
        )

    def _listen(self, node: str, frame: Frame, now_s: float) -> None:
        """A frame of the standing stream. Where two nodes hand on the same, the first counts."""
        if isinstance(frame, Fault):
            self._state.listening.fault(frame, self._buffer.position_ms)
        elif isinstance(frame, End):
            self._end(1011, "server_error", "The pipeline can't listen any more.")
        elif self._sources.setdefault(type(frame), node) != node:
            return
        elif isinstance(frame, SpeechStarted):
            self._state.timings.started(frame)
            if self._state.listening.started(frame):
                self._floor.speech_started(now_s)
        elif isinstance(frame, SpeechPaused):
            self._state.timings.paused(frame, now_s)
        elif isinstance(frame, SpeechStopped):
            self._state.timings.stopped(frame, self.settings, now_s)
            if not frame.dropped:
                self._buffer.committed(frame.end_ms)
            self._state.listening.stopped(frame, now_s)
        elif isinstance(frame, Transcript):
            if frame.final:
                self._state.timings.transcribed(now_s)
            self._state.listening.transcript(frame)

    def _settle(self, now_s: float) -> list[Effect]:
        if not self._closed:
            self._floor.settle(now_s)
        return self._state.outbox.take()

    def _over(self, response: Response, now_s: float) -> None:
        self._floor.over(response, now_s)

    def _idle_until_s(self) -> float:
        """Infinite while a reply is made, which the client may be waiting for."""
        busy = self._state.responses.main is not None
        return math.inf if busy else self._heard_s + self._idle_s

    def _end(self, code: int, reason: str, message: str) -> None:
        if not self._closed:
            self._closed = True
            error = error_body(ClientError(reason, message), None)
            self._state.outbox.send("error", error=error | {"type": "server_error"})
            self._state.outbox.add(Close(code, message))

    def session(self) -> Event:
        """The session object: what is in force, whole."""
        return self.settings.wire(self._state.offer, self.session_id, self._expires_at)

    def _send_session(self, kind: str) -> None:
        self._state.outbox.send(kind, session=self.session())
