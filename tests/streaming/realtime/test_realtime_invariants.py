"""Ten invariants of a realtime session, held under random client events and pipeline frames.

They are LocalAI's (docs/design/realtime-state-machines.md, part 4). Two of them belong to the
shell, and are tested with it: every task is joined before the session goes, and closing twice is
the same as once.
"""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
from anyclient import AnyClient
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, precondition, rule
from ledger import Event

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

WORDS = st.sampled_from(["", "…", "Hello.", "What is the time?"])


class RealtimeMachine(AnyClient):
    """A client and a pipeline that do anything they may, in any order."""

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
