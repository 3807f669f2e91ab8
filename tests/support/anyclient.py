"""A client of a realtime session that hypothesis drives: it does anything, in any order."""

from __future__ import annotations

import base64
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from ledger import Event, Ledger
from talk import Talk

from motet.components.frames import (
    SpeechStopped,
)

DETECTIONS = st.sampled_from(
    [
        None,
        {"type": "server_vad"},
        {"type": "server_vad", "create_response": False},
        {"type": "server_vad", "interrupt_response": False},
        {"type": "server_vad", "idle_timeout_ms": 2000},
        {"type": "semantic_vad", "eagerness": "low"},
    ]
)


class AnyClient(RuleBasedStateMachine):
    """A client that does anything it may, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = Talk()
        self.ledger = Ledger()
        self.read_until = 0
        self.appended: list[bytes] = []
        self.half = b""
        self.ended: set[int] = set()
        self.utterance: int | None = None
        self.count = 0
        self.manual: list[int] = []
        self.untold: list[int] = []
        self.failed_ids: set[str] = set()
        self.sent = 0
        self.controls = 0

    def say(self, kind: str, **fields: Any) -> list[Event]:
        self.sent += 1
        event_id = f"client_{self.sent}"
        events = self.talk.say(kind, event_id=event_id, **fields)
        errors = [e["error"] for e in events if e["type"] == "error"]
        assert all(e["event_id"] == event_id for e in errors)
        assert len(errors) <= 1
        return events

    def running(self) -> list[int]:
        over = {*self.talk.cancelled, *self.ended}
        return [turn for turn in self.talk.opened if turn not in over]

    @rule(data=st.binary(max_size=400))
    def append(self, data: bytes) -> None:
        self.appended.append(data)
        self.say("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    @rule()
    def append_much(self) -> None:
        data = np.arange(4800, dtype="<i2").tobytes()
        self.appended.append(data)
        self.say("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    @rule()
    def append_rubbish(self) -> None:
        assert self.say("input_audio_buffer.append", audio="?!")[0]["type"] == "error"

    @rule()
    def commit(self) -> None:
        events = self.say("input_audio_buffer.commit")
        assert len(events) >= 1
        if events[0]["type"] != "error":
            self.controls += 1
            if self.utterance is not None:
                self.untold.append(self.utterance)
                self.talk.hear(0, "turn", SpeechStopped(self.utterance, 5.0))
                self.utterance = None
            else:
                self.count += 1
                self.manual.append(self.count)

    @rule()
    @precondition(lambda self: not self.manual)
    def clear(self) -> None:
        self.controls += 1
        kinds = self.talk.types(self.say("input_audio_buffer.clear"))
        assert "input_audio_buffer.cleared" in kinds
        self.half = b""
        self.appended.append(b"|")
        if self.utterance is not None:
            self.talk.hear(0, "turn", SpeechStopped(self.utterance, 5.0, dropped=True))
            self.utterance = None

    @rule(detection=DETECTIONS, partial=st.booleans())
    def update(self, detection: Any, partial: bool) -> None:
        self.controls += 1
        heard: Event = {"turn_detection": detection}
        if partial:
            heard["transcription"] = None if detection is None else {"language": "en"}
        answer = self.say("session.update", session={"type": "realtime", "audio": {"input": heard}})
        assert answer[0]["type"] == "session.updated"
        told = answer[0]["session"]["audio"]["input"]["turn_detection"]
        assert (told is None) == (detection is None)

    @rule(
        conversation=st.sampled_from(["auto", "none"]),
        modality=st.sampled_from(["text", "audio"]),
        voice=st.sampled_from(["alloy", "ash", None]),
    )
    def respond(self, conversation: str, modality: str, voice: str | None) -> None:
        wish: Event = {
            "conversation": conversation,
            "output_modalities": [modality],
            "metadata": {"n": str(self.sent)},
            "instructions": None,
            "audio": {"output": {"voice": voice}},
        }
        events = self.say("response.create", response=wish)
        assert events[0]["type"] in ("response.created", "error")

    @rule(known=st.booleans())
    def cancel(self, known: bool) -> None:
        active = self.ledger.active
        fields = {"response_id": active[-1]} if known and active else {}
        kinds = self.talk.types(self.say("response.cancel", **fields))
        assert "response.done" in kinds or "error" in kinds

    @rule(role=st.sampled_from(["user", "assistant", "system"]))
    def create_item(self, role: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": "x"}]}
        events = self.say("conversation.item.create", item=item)
        assert self.talk.types(events)[:2] == ["conversation.item.added", "conversation.item.done"]

    @rule(which=st.integers(0, 50), what=st.sampled_from(["delete", "retrieve", "truncate"]))
    def touch_item(self, which: int, what: str) -> None:
        known = sorted(self.ledger.added - self.ledger.gone) or ["none"]
        fields: Event = {"item_id": known[which % len(known)]}
        if what == "truncate":
            fields |= {"content_index": 0, "audio_end_ms": which * 20}
        kinds = self.talk.types(self.say(f"conversation.item.{what}", **fields))
        assert kinds[0] in (f"conversation.item.{what}d", "conversation.item.deleted", "error")

    @rule()
    def unknown_event(self) -> None:
        assert self.say("session.destroy")[0]["error"]["code"] == "unknown_or_invalid_event"
