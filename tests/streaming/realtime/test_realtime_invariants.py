"""Ten invariants of a realtime session, held under random client events and pipeline frames.

They are LocalAI's (docs/design/realtime-state-machines.md, part 4). Two of them belong to the
shell, and are tested with it: every task is joined before the session goes, and closing twice is
the same as once.
"""

from __future__ import annotations

import base64
import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from talk import Talk

from motet.components.frames import (
    Audio,
    Clear,
    Commit,
    Completed,
    End,
    Fault,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
    ToolCall,
    Transcript,
    TranscriptionSettings,
    TurnSettings,
    Usage,
)

Event = dict[str, Any]

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
WORDS = st.sampled_from(["", "…", "Hello.", "What is the time?"])


class Ledger:
    """Reads the events as they come, and remembers what is open."""

    def __init__(self) -> None:
        self.responses: dict[str, Event] = {}
        self.over: set[str] = set()
        self.open_items: set[tuple[str, str]] = set()
        self.open_parts: set[str] = set()
        self.added: set[str] = set()
        self.done: set[str] = set()
        self.gone: set[str] = set()
        self.speaking: str | None = None
        self.stopped: set[str] = set()
        self.committed: set[str] = set()
        self.cancelled_by_speech = 0
        self.ids: set[str] = set()

    def read(self, event: Event) -> None:
        assert event["event_id"] not in self.ids, "an event id came twice"
        self.ids.add(event["event_id"])
        kind = event["type"]
        if (response_id := event.get("response_id")) is not None and kind.startswith("response."):
            assert response_id in self.responses, "before response.created"
            assert response_id not in self.over, f"{kind} after response.done"
        handler = getattr(self, "on_" + kind.replace(".", "_"), None)
        if handler is not None:
            handler(event)

    @property
    def active(self) -> list[str]:
        return [r for r in self.responses if r not in self.over]

    def on_response_created(self, event: Event) -> None:
        response = event["response"]
        assert response["id"] not in self.responses
        if response["conversation_id"] is not None:
            main = [r for r in self.active if self.responses[r]["conversation_id"] is not None]
            assert not main, "two active responses"
        self.responses[response["id"]] = response

    def on_response_done(self, event: Event) -> None:
        response, begun = event["response"], self.responses[event["response"]["id"]]
        assert response["id"] not in self.over, "a second terminal"
        self.over.add(response["id"])
        for fixed in ("output_modalities", "max_output_tokens", "audio", "metadata"):
            assert response[fixed] == begun[fixed], "its settings changed under way"
        assert not [i for r, i in self.open_items if r == response["id"]]
        assert response["status"] in ("completed", "cancelled", "failed", "incomplete")
        details = response["status_details"]
        assert (details is None) == (response["status"] == "completed")

    def on_response_output_item_added(self, event: Event) -> None:
        self.open_items.add((event["response_id"], event["item"]["id"]))

    def on_response_output_item_done(self, event: Event) -> None:
        assert event["item"]["id"] not in self.open_parts, "the part is still open"
        self.open_items.remove((event["response_id"], event["item"]["id"]))

    def on_response_content_part_added(self, event: Event) -> None:
        self.open_parts.add(event["item_id"])

    def on_response_content_part_done(self, event: Event) -> None:
        self.open_parts.remove(event["item_id"])

    def on_response_output_audio_delta(self, event: Event) -> None:
        assert event["item_id"] in self.open_parts
        assert len(base64.b64decode(event["delta"])) % 2 == 0

    def on_conversation_item_added(self, event: Event) -> None:
        assert event["item"]["id"] not in self.added
        previous = event["previous_item_id"]
        assert previous is None or previous in self.added - self.gone
        self.added.add(event["item"]["id"])

    def on_conversation_item_done(self, event: Event) -> None:
        assert event["item"]["id"] in self.added
        self.done.add(event["item"]["id"])

    def on_conversation_item_deleted(self, event: Event) -> None:
        self.gone.add(event["item_id"])

    def on_input_audio_buffer_speech_started(self, event: Event) -> None:
        assert self.speaking is None, "speech started twice"
        self.speaking = event["item_id"]

    def on_input_audio_buffer_speech_stopped(self, event: Event) -> None:
        assert self.speaking == event["item_id"]
        self.speaking = None
        self.stopped.add(event["item_id"])

    def on_input_audio_buffer_committed(self, event: Event) -> None:
        assert event["item_id"] not in self.committed, "committed twice"
        assert self.speaking != event["item_id"], "committed while it is spoken"
        self.committed.add(event["item_id"])


class RealtimeMachine(RuleBasedStateMachine):
    """A client and a pipeline that do anything they may, in any order."""

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

    @rule()
    @precondition(lambda self: self.utterance is None and not self.manual)
    def begin_speech(self) -> None:
        if self.talk.protocol.settings.detection is None:
            return
        self.count += 1
        self.utterance = self.count
        start_ms = self.talk.protocol.settings.detection.prefix_padding_ms + 1e6
        events = self.talk.hear(0, "turn", SpeechStarted(self.utterance, start_ms))
        cancelled = [e for e in events if e["type"] == "response.done"]
        assert events[0]["type"] == "input_audio_buffer.speech_started"
        assert all(e["response"]["status_details"]["reason"] == "turn_detected" for e in cancelled)

    @rule(dropped=st.booleans(), text=WORDS, early=st.booleans())
    @precondition(lambda self: self.utterance is not None)
    def end_speech(self, dropped: bool, text: str, early: bool) -> None:
        number, self.utterance = self.utterance, None
        assert number is not None
        if early and not dropped:
            self.talk.hear(0, "asr", Transcript(text, True, number))
            self.talk.hear(0, "turn", SpeechStopped(number, 2e6))
            return
        self.talk.hear(0, "turn", SpeechStopped(number, 2e6, dropped=dropped))
        if not dropped:
            self.untold.append(number)

    @rule(text=WORDS)
    @precondition(lambda self: self.utterance is not None)
    def partial(self, text: str) -> None:
        assert self.utterance is not None
        self.talk.hear(0, "asr", Transcript(text, False, self.utterance))

    @rule(text=WORDS, fault=st.booleans())
    @precondition(lambda self: self.untold)
    def transcribe(self, text: str, fault: bool) -> None:
        number = self.untold.pop(0)
        if fault:
            self.talk.hear(0, "asr", Fault("asr", "component_failed", "no", utterance=number))
        else:
            self.talk.hear(0, "asr", Transcript(text, True, number))

    @rule()
    @precondition(lambda self: self.manual)
    def end_manual(self) -> None:
        number = self.manual.pop(0)
        started = SpeechStarted(number, 0.0, detected=False)
        self.talk.hear(0, "turn", started, SpeechStopped(number, 3e6, detected=False))
        self.untold.append(number)

    @rule()
    def listening_breaks(self) -> None:
        self.talk.hear(0, "asr", Fault("asr", "component_failed", "gone"))
        self.untold.clear()
        self.manual.clear()
        self.utterance = None

    @rule(data=st.data())
    @precondition(lambda self: self.running())
    def speak(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.running()))
        kind = data.draw(st.sampled_from(["text", "said", "audio", "call", "completed"]))
        frame = {
            "text": TextDelta("word "),
            "said": Spoken("word ", 0, 200),
            "audio": Audio(np.ones(441, np.int16), 22_050),
            "call": ToolCall(f"call_{turn}", "f", "{}", done=data.draw(st.booleans())),
            "completed": Completed(usage=Usage(1, 1)),
        }[kind]
        self.talk.hear(turn, "tts" if kind in ("said", "audio") else "llm", frame)

    @rule(data=st.data(), failed=st.booleans())
    @precondition(lambda self: self.running())
    def end_turn(self, data: st.DataObject, failed: bool) -> None:
        turn = data.draw(st.sampled_from(self.running()))
        if failed:
            self.talk.hear(turn, "tts", Fault("tts", "component_failed", "no voice"))
        self.talk.hear(turn, "", End())
        self.ended.add(turn)

    @rule(data=st.data())
    @precondition(lambda self: self.talk.cancelled)
    def stale_frame(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.talk.cancelled))
        assert self.talk.hear(turn, "tts", Audio(np.ones(10, np.int16), 24_000)) == []

    @rule(seconds=st.sampled_from([0.02, 1.0, 3.0, 12.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.talk.pass_(seconds)

    @invariant()
    def the_events_keep_their_order(self) -> None:
        events, self.read_until = self.talk.events[self.read_until :], len(self.talk.events)
        for event in events:
            self.ledger.read(event)
        self.turns_are_cancelled_at_most_once()

    def turns_are_cancelled_at_most_once(self) -> None:
        assert set(self.talk.cancelled) <= set(self.talk.opened)
        assert len(set(self.talk.cancelled)) == len(self.talk.cancelled)
        assert len(self.running()) <= len(self.ledger.active)

    @invariant()
    def no_byte_is_lost_or_consumed_twice(self) -> None:
        fed = [f for f in self.talk.fed if isinstance(f, Audio)]
        whole, expected = b"", b""
        for data in self.appended:
            if data == b"|":
                expected += whole[: len(whole) // 2 * 2]
                whole = b""
            else:
                whole += data
        expected += whole[: len(whole) // 2 * 2]
        assert b"".join(f.pcm.tobytes() for f in fed) == expected
        for one, after in itertools.pairwise(fed):
            assert abs(after.start_ms - one.end_ms) < 1e-6

    @invariant()
    def no_control_is_dropped(self) -> None:
        fed = [f for f in self.talk.fed if isinstance(f, Commit | Clear)]
        told = [
            e
            for e in self.talk.events
            if e["type"] in ("session.updated", "input_audio_buffer.cleared")
        ]
        assert len(fed) + sum(e["type"] == "session.updated" for e in told) == self.controls
        now = self.talk.protocol.settings
        newest = [f for f in self.talk.fed if isinstance(f, TurnSettings)][-1]
        assert newest == now.turn_settings()
        newest = [f for f in self.talk.fed if isinstance(f, TranscriptionSettings)][-1]
        assert newest == now.transcription_settings()

    def teardown(self) -> None:
        """Whatever went on, time ends every response, and nothing stays open."""
        self.talk.pass_(200)
        self.the_events_keep_their_order()
        assert self.ledger.active == []
        assert not self.ledger.open_items
        assert not self.ledger.open_parts
        assert self.ledger.added - self.ledger.gone <= self.ledger.done
        assert {e["item_id"] for e in self.transcripts()} <= self.ledger.committed
        assert len(self.transcripts()) == len({e["item_id"] for e in self.transcripts()})

    def transcripts(self) -> list[Event]:
        head = "conversation.item.input_audio_transcription."
        kinds = (head + "completed", head + "failed")
        return [e for e in self.talk.events if e["type"] in kinds]


TestRealtimeInvariants = RealtimeMachine.TestCase
TestRealtimeInvariants.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
