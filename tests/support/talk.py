"""A realtime session under test: the protocol driven by hand, its events held to the SDK."""

from __future__ import annotations

import base64
import itertools
from typing import Any, get_args

import numpy as np
from openai.types.realtime import RealtimeServerEvent
from pydantic import BaseModel

from motet.components.frames import (
    Audio,
    Completed,
    End,
    Frame,
    Message,
    Prompt,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
    Transcript,
    Usage,
)
from motet.pipelines.spec import ConversationSpec
from motet.streaming.realtime.effects import Cancel, Close, Effect, Feed, Open, Report, Send
from motet.streaming.realtime.protocol import RealtimeProtocol
from motet.streaming.realtime.settings import Offer

Event = dict[str, Any]


def _models() -> dict[str, type[BaseModel]]:
    models: dict[str, type[BaseModel]] = {}
    for model in get_args(get_args(RealtimeServerEvent)[0]):
        name = model.model_fields["type"].annotation if "type" in model.model_fields else None
        for kind in get_args(name):
            models[kind] = model
    return models


MODELS = _models()
SENT_BY_OPENAI_TOO = {
    f"session.{kind}.session.{name}"
    for kind in ("created", "updated")
    for name in ("id", "object", "expires_at")
}
"""The SDK types a session in events as the request; real sessions carry these fields as well."""


def check_event(event: Event) -> None:
    """Hold an event to the SDK's model: every required field, right types, and nothing unknown."""
    model = MODELS.get(event["type"])
    assert model is not None, f"the SDK knows no event {event['type']!r}"
    parsed = model.model_validate(event)
    unknown = set(_extras(parsed, event["type"])) - SENT_BY_OPENAI_TOO
    assert not unknown, unknown


def _extras(value: Any, path: str) -> Any:
    if isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            yield f"{path}.{name}"
        for name in type(value).model_fields:
            yield from _extras(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from _extras(one, path)


def pcm(duration_ms: float, rate_hz: int = 24_000) -> str:
    """Base64 of so much 16-bit audio."""
    return base64.b64encode(np.zeros(int(duration_ms * rate_hz / 1000), "<i2").tobytes()).decode()


class Talk:
    """`now_s` moves by hand. `events` is all that the client got, `opened` the turns begun."""

    def __init__(
        self, spec: ConversationSpec | None = None, *, voices: tuple[str, ...] = (), **options: Any
    ) -> None:
        self.now_s = 0.0
        count = itertools.count(1)
        self.protocol = RealtimeProtocol(
            Offer("voice", "whisper-tiny-en", spec or ConversationSpec(), voices),
            now_s=0.0,
            new_id=lambda prefix: f"{prefix}_{next(count)}",
            **options,
        )
        self.events: list[Event] = []
        self.fed: list[Frame] = []
        self.opened: dict[int, Prompt] = {}
        self.cancelled: list[int] = []
        self.closed: Close | None = None
        self.reports: list[Report] = []
        self._utterances = itertools.count(1)
        self.do(self.protocol.start())

    def do(self, effects: list[Effect]) -> list[Event]:
        """Carry effects out; the events among them, checked."""
        events: list[Event] = []
        for effect in effects:
            match effect:
                case Send(event):
                    if not event["type"].startswith("motet."):
                        check_event(event)
                    events.append(event)
                case Feed(frame):
                    self.fed.append(frame)
                case Open(turn, frames):
                    assert turn > max(self.opened, default=0)
                    self.opened[turn] = next(f for f in frames if isinstance(f, Prompt))
                case Cancel(turn):
                    self.cancelled.append(turn)
                case Close():
                    self.closed = effect
                case Report():
                    self.reports.append(effect)
        self.events += events
        return events

    def say(self, kind: str, **fields: Any) -> list[Event]:
        """A client event; what came back."""
        return self.do(self.protocol.receive({"type": kind, **fields}, self.now_s))

    def update(self, **session: Any) -> list[Event]:
        """`session.update` of these fields."""
        return self.say("session.update", session={"type": "realtime", **session})

    def hear(self, turn: int, node: str, *frames: Frame) -> list[Event]:
        """Frames from the pipeline; what came back."""
        events: list[Event] = []
        for frame in frames:
            events += self.do(self.protocol.hear(turn, node, frame, self.now_s))
        return events

    def pass_(self, seconds: float) -> list[Event]:
        """Let time pass, ticking at each deadline."""
        until_s = self.now_s + seconds
        events: list[Event] = []
        while (due_s := self.protocol.next_deadline()) <= until_s and self.closed is None:
            self.now_s = max(self.now_s, due_s)
            events += self.do(self.protocol.tick(self.now_s))
        self.now_s = until_s
        return events

    def append(self, duration_ms: float) -> None:
        """So much audio from the client."""
        assert self.say("input_audio_buffer.append", audio=pcm(duration_ms)) == []

    def start_speech(self, start_ms: float = 100.0) -> int:
        """A detector hears someone begin."""
        number = next(self._utterances)
        self.hear(0, "turn", SpeechStarted(number, start_ms))
        return number

    def stop_speech(self, number: int, text: str | None, end_ms: float = 1000.0) -> list[Event]:
        """The utterance ends, with this transcript (None: not yet)."""
        events = self.hear(0, "turn", SpeechStopped(number, end_ms))
        if text is not None:
            events += self.hear(0, "asr", Transcript(text, True, number, audio_ms=900))
        return events

    def utter(self, text: str | None) -> list[Event]:
        """A whole utterance."""
        before = len(self.events)
        self.stop_speech(self.start_speech(), text)
        return self.events[before:]

    def reply(self, *sentences: str, turn: int | None = None, ms_each: float = 1000) -> list[Event]:
        """The pipeline writes and speaks these sentences in its newest turn, not ending it."""
        turn = turn or max(self.opened)
        events: list[Event] = []
        for number, text in enumerate(sentences):
            events += self.hear(turn, "llm", TextDelta(text))
            start_ms = number * ms_each
            events += self.hear(turn, "tts", Spoken(text, start_ms, start_ms + ms_each))
            samples = np.zeros(int(24 * ms_each), np.int16)
            events += self.hear(turn, "tts", Audio(samples, 24_000, start_ms))
        return events

    def finish(self, turn: int | None = None, **completed: Any) -> list[Event]:
        """The newest turn comes to its end."""
        turn = turn or max(self.opened)
        done = Completed(usage=Usage(20, 10), **completed)
        return self.hear(turn, "llm", done) + self.hear(turn, "", End())

    def prompt(self) -> tuple[Message, ...]:
        """The messages of the newest turn's prompt, without the instructions."""
        return self.opened[max(self.opened)].messages[1:]

    def types(self, events: list[Event] | None = None) -> list[str]:
        """The types of events, audio and text deltas folded."""
        kinds = [event["type"] for event in (self.events if events is None else events)]
        return [kind for kind, _ in itertools.groupby(kinds)]

    def last(self, kind: str) -> Event:
        """The newest event of that type."""
        return next(event for event in reversed(self.events) if event["type"] == kind)
