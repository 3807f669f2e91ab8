"""One phone call as a realtime client, without I/O: carrier messages in, realtime events out, and
back. What the caller has heard is known by the marks that the carrier echoes."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...components.errors import BadInput
from .dialects import Dialect, Heard, Message, Played, Pressed, Started, Stopped
from .line import Line

KEYPAD_PAUSE_S = 1.5
MAX_DIGITS = 64
MAX_HELD_CHUNKS = 5
START = "start"
"""The id of the event that sets a session up for its call."""

Event = dict[str, Any]


@dataclass(slots=True)
class Step:
    """What one input leads to: events for the realtime session, messages for the carrier."""

    events: list[Event] = field(default_factory=list[Event])
    messages: list[Message] = field(default_factory=list[Message])
    over: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of a reply that was sent: item and milliseconds of it, until the carrier's echo."""

    name: str
    item_id: str
    start_ms: float
    end_ms: float


class Order:
    """Puts numbered chunks in order where a carrier doesn't; a late one is dropped."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, str] = {}

    def push(self, heard: Heard) -> list[str]:
        """The payloads that are due, in order. A gap is given up after a few chunks."""
        if heard.chunk is None:
            return [heard.payload]
        if self._next is None:
            self._next = heard.chunk
        if heard.chunk < self._next:
            return []
        self._held[heard.chunk] = heard.payload
        if len(self._held) > MAX_HELD_CHUNKS:
            self._next = min(self._held)
        due: list[str] = []
        while self._next in self._held:
            due.append(self._held.pop(self._next))
            self._next += 1
        return due


class Call:
    """Give it what the carrier and the session say; do what the steps say, in order.

    Times are seconds of one steady clock. `due_s` is when `tick` wants to be called, None if never.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.started: Started | None = None
        self.due_s: float | None = None
        self._line: Line | None = None
        self._order = Order()
        self._marks: deque[Mark] = deque()
        self._since_s = 0.0
        self._sent_ms: dict[str, float] = {}
        self._count = 0
        self._item = ""
        self._response: str | None = None
        self._digits = ""

    def receive(self, message: Mapping[str, Any], now_s: float) -> Step:
        """A message from the carrier.

        Raises:
            BadInput: it can't be understood, or speaks an audio format that we don't.
        """
        match self.dialect.parse(message):
            case Started() as started:
                return self._start(started)
            case Heard() as heard:
                return self._hear(heard)
            case Played(name):
                return self._played(name, now_s)
            case Pressed(digit):
                return self._press(digit, now_s)
            case Stopped():
                return Step(over=True)
            case None:
                return Step()

    def deliver(self, event: Mapping[str, Any], now_s: float) -> Step:
        """An event from the realtime session.

        Raises:
            BadInput: it doesn't take what the operator attached to the call.
        """
        match event["type"]:
            case "response.created":
                self._response = event["response"]["id"]
            case "response.done" if event["response"]["id"] == self._response:
                self._response = None
            case "response.output_audio.delta":
                self._item = event["item_id"]
                return self._say(self._ready(event["delta"]), now_s)
            case "response.output_audio.done":
                return self._say(self._line.finish() if self._line else [], now_s)
            case "input_audio_buffer.speech_started":
                return self._silence(now_s)
            case "error" if event["error"]["event_id"] == START:
                raise BadInput(event["error"]["message"], where=self.dialect.name)
            case _:
                pass
        return Step()

    def tick(self, now_s: float) -> Step:
        """The clock: keys pressed without an end are sent after a pause."""
        if self.due_s is None or now_s < self.due_s:
            return Step()
        return self._send_digits(now_s)

    def _start(self, started: Started) -> Step:
        if self.started is not None:
            raise BadInput("a second start", where=self.dialect.name)
        self.started = started
        self._line = Line(self.dialect, started)
        given = started.parameters
        output: Event = {"format": self._line.format}
        if "voice" in given:
            output["voice"] = given["voice"]
        session: Event = {
            "type": "realtime",
            "output_modalities": ["audio"],
            "audio": {"input": {"format": self._line.format}, "output": output},
        }
        if "instructions" in given:
            session["instructions"] = given["instructions"]
        step = Step([{"type": "session.update", "event_id": START, "session": session}])
        if "opening" in given:
            response = {"instructions": given["opening"]}
            step.events.append({"type": "response.create", "response": response})
        return step

    def _hear(self, heard: Heard) -> Step:
        if self._line is None:
            raise BadInput("media before start", where=self.dialect.name)
        due = [heard.payload] if self.dialect.ordered else self._order.push(heard)
        audio = [self._line.heard(payload) for payload in due]
        return Step(
            [{"type": "input_audio_buffer.append", "audio": part} for part in audio if part]
        )

    def _ready(self, delta: str) -> list[bytes]:
        return self._line.say(delta) if self._line else []

    def _say(self, pieces: list[bytes], now_s: float) -> Step:
        step = Step()
        if self._line is None or self.started is None:
            return step
        stream_id = self.started.stream_id
        for piece in pieces:
            if not self._marks:
                self._since_s = now_s
            start_ms = self._sent_ms.get(self._item, 0.0)
            end_ms = start_ms + self._line.duration_ms(piece)
            self._sent_ms = {self._item: end_ms}
            self._count += 1
            mark = Mark(f"m{self._count}", self._item, start_ms, end_ms)
            self._marks.append(mark)
            payload = base64.b64encode(piece).decode()
            step.messages.append(self.dialect.media(stream_id, payload, self.started))
            step.messages.append(self.dialect.mark(stream_id, mark.name))
        return step

    def _played(self, name: str, now_s: float) -> Step:
        if any(mark.name == name for mark in self._marks):
            while self._marks.popleft().name != name:
                pass
            self._since_s = now_s
        return Step()

    def _silence(self, now_s: float) -> Step:
        """Stops what plays, and tells the session how much of each item was heard."""
        if self._line is None or self.started is None:
            return Step()
        self._line.drop()
        if not self._marks:
            return Step()
        heard = self._heard_ms(now_s)
        self._marks.clear()
        truncated: list[Event] = [
            {
                "type": "conversation.item.truncate",
                "item_id": item_id,
                "content_index": 0,
                "audio_end_ms": int(ms),
            }
            for item_id, ms in heard.items()
        ]
        return Step(truncated, [self.dialect.clear(self.started.stream_id)])

    def _heard_ms(self, now_s: float) -> dict[str, float]:
        """How much was heard of each item that isn't played out: of the first by the clock."""
        first = self._marks[0]
        playing_ms = min((now_s - self._since_s) * 1000, first.end_ms - first.start_ms)
        heard = {mark.item_id: 0.0 for mark in self._marks}
        heard[first.item_id] = first.start_ms + max(0.0, playing_ms)
        return heard

    def _press(self, digit: str, now_s: float) -> Step:
        self._digits = (self._digits + digit)[:MAX_DIGITS]
        self.due_s = now_s + KEYPAD_PAUSE_S
        return self._send_digits(now_s) if digit == "#" else Step()

    def _send_digits(self, now_s: float) -> Step:
        """The keys as the caller's words; they cut off a reply as speech would."""
        digits, self._digits, self.due_s = self._digits, "", None
        step = self._silence(now_s)
        if self._response is not None:
            step.events.append({"type": "response.cancel", "response_id": self._response})
        content = [{"type": "input_text", "text": f"(pressed on the keypad: {digits})"}]
        item = {"type": "message", "role": "user", "content": content}
        step.events.append({"type": "conversation.item.create", "item": item})
        step.events.append({"type": "response.create"})
        return step
