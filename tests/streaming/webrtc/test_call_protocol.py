"""A whole call through the protocol: audio out of the events, and what was played told of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from motet.components.frames import (
    Audio,
    Completed,
    End,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
    Transcript,
)
from motet.streaming.realtime.effects import Cancel, Effect, Feed, Open, Send
from motet.streaming.realtime.protocol import RealtimeProtocol
from motet.streaming.realtime.settings import Offer
from motet.streaming.webrtc.playout import Playout
from motet.streaming.webrtc.protocol import CallProtocol

Event = dict[str, Any]
TEXT = "Good day to you. And a good night."


class Talk:
    """One call on a clock of its own; `events` are what the client is told."""

    def __init__(self) -> None:
        playout = Playout()
        inner = RealtimeProtocol(Offer(), now_s=0.0, playback=playout)
        self.call = CallProtocol(inner, playout)
        self.now_s = 0.0
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.heard: list[np.ndarray] = []
        self.do(self.call.start())

    def do(self, effects: list[Effect]) -> None:
        self.effects += effects
        self.events += [effect.event for effect in effects if isinstance(effect, Send)]

    def say(self, kind: str, **fields: Any) -> None:
        self.do(self.call.receive(json.dumps({"type": kind, **fields}), self.now_s))

    def hear(self, turn: int, node: str, *frames: Any) -> None:
        for frame in frames:
            self.do(self.call.hear(turn, node, frame, self.now_s))

    def pass_(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.02)):
            self.now_s += 0.02
            pcm, effects = self.call.pull(self.now_s)
            if pcm is not None:
                self.heard.append(pcm)
            self.do(effects)

    def utter(self, number: int, text: str) -> int:
        """The caller says something; the turn of the answer."""
        self.hear(0, "turn", SpeechStarted(number, 0.0), SpeechStopped(number, 900.0))
        self.hear(0, "asr", Transcript(text, True, number))
        return [effect.turn for effect in self.effects if isinstance(effect, Open)][-1]

    def answer(self, turn: int, *, over: bool = True) -> None:
        """Two seconds of speech, faster than life."""
        samples = (6000 * np.sin(np.arange(48_000) * 2 * np.pi * 400 / 24_000)).astype(np.int16)
        self.hear(turn, "llm", TextDelta(TEXT))
        self.hear(turn, "tts", Spoken(TEXT, 0.0, 2000.0), Audio(samples, 24_000))
        if over:
            self.hear(turn, "llm", Completed())
            self.hear(turn, "", End())

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def last(self, kind: str) -> Event:
        return next(event for event in reversed(self.events) if event["type"] == kind)

    def history(self) -> list[tuple[str, str]]:
        prompts = [e.frames for e in self.effects if isinstance(e, Open)][-1]
        return [(m.role, m.text) for m in prompts[-1].messages if m.role != "system"]  # type: ignore[attr-defined]


def test_a_reply_is_heard_at_the_pace_of_life_and_is_no_event() -> None:
    talk = Talk()
    talk.answer(talk.utter(1, "Hello there."))
    assert "response.output_audio.delta" not in talk.kinds()
    assert talk.kinds()[-2:] == ["response.done", "rate_limits.updated"]
    talk.pass_(3.0)
    assert sum(map(len, talk.heard)) == 48_000
    assert np.abs(np.concatenate(talk.heard)).max() > 5000
    buffer = [kind for kind in talk.kinds() if kind.startswith("output_audio_buffer")]
    assert buffer == ["output_audio_buffer.started", "output_audio_buffer.stopped"]
    response_id = talk.last("response.done")["response"]["id"]
    assert talk.last("output_audio_buffer.stopped")["response_id"] == response_id


@pytest.mark.parametrize("over", [True, False])
def test_barging_in_cuts_the_reply_off_where_it_was_played(over: bool) -> None:
    talk = Talk()
    talk.answer(talk.utter(1, "Hello there."), over=over)
    talk.pass_(0.5)
    before = len(talk.events)
    talk.hear(0, "turn", SpeechStarted(2, 2000.0))
    after = talk.kinds()[before:]
    assert after[0] == "input_audio_buffer.speech_started"
    assert ("response.done" in after) is not over
    assert after[-2:] == ["output_audio_buffer.cleared", "conversation.item.truncated"]
    assert talk.last("conversation.item.truncated")["audio_end_ms"] == 500
    heard = len(talk.heard)
    talk.pass_(0.5)
    assert len(talk.heard) == heard, "silence at once"
    if not over:
        assert any(isinstance(effect, Cancel) for effect in talk.effects)
    talk.hear(0, "turn", SpeechStopped(2, 2900.0))
    talk.hear(0, "asr", Transcript("Stop.", True, 2))
    said = talk.history()
    assert [text for role, text in said if role == "user"] == ["Hello there.", "Stop."]
    [reply] = [text for role, text in said if role == "assistant"]
    assert reply == "Good day", "a quarter of it"


def test_speech_after_a_reply_was_heard_out_cuts_nothing_off() -> None:
    talk = Talk()
    talk.answer(talk.utter(1, "Hello there."))
    talk.pass_(2.5)
    before = len(talk.events)
    talk.hear(0, "turn", SpeechStarted(2, 4000.0))
    assert talk.kinds()[before:] == ["input_audio_buffer.speech_started"]


def test_a_cancelled_reply_plays_on_until_it_is_cleared() -> None:
    talk = Talk()
    talk.answer(talk.utter(1, "Hello there."), over=False)
    talk.pass_(0.5)
    talk.say("response.cancel")
    assert talk.last("response.done")["response"]["status"] == "cancelled"
    talk.pass_(0.5)
    talk.say("output_audio_buffer.clear")
    cleared = [event for event in talk.events if event["type"] == "output_audio_buffer.cleared"]
    assert [event["response_id"] for event in cleared] == [
        talk.last("response.done")["response"]["id"]
    ]
    assert talk.last("conversation.item.truncated")["audio_end_ms"] == 1000
    assert "error" not in talk.kinds()


def test_clearing_nothing_is_answered_too() -> None:
    talk = Talk()
    talk.say("output_audio_buffer.clear")
    assert talk.kinds()[-1] == "output_audio_buffer.cleared"


def test_a_reply_of_which_nothing_was_played_is_no_part_of_the_history() -> None:
    talk = Talk()
    talk.answer(talk.utter(1, "Hello there."))
    talk.hear(0, "turn", SpeechStarted(2, 2000.0))
    assert talk.last("conversation.item.truncated")["audio_end_ms"] == 0
    talk.hear(0, "turn", SpeechStopped(2, 2900.0))
    talk.hear(0, "asr", Transcript("Hello?", True, 2))
    assert {role for role, _ in talk.history()} == {"user"}


def test_audio_outside_of_the_conversation_is_cleared_without_an_error() -> None:
    talk = Talk()
    talk.say("response.create", response={"conversation": "none"})
    talk.answer([effect.turn for effect in talk.effects if isinstance(effect, Open)][-1])
    talk.pass_(0.2)
    talk.say("output_audio_buffer.clear")
    assert talk.kinds()[-1] == "output_audio_buffer.cleared"
    assert "error" not in talk.kinds()


def test_audio_as_an_event_is_refused_and_the_call_goes_on() -> None:
    talk = Talk()
    talk.say("input_audio_buffer.append", audio="AAAA", event_id="mine")
    error = talk.last("error")["error"]
    assert error["event_id"] == "mine"
    assert "media track" in error["message"]
    talk.do(talk.call.receive("{", talk.now_s))
    assert talk.last("error")["error"]["code"] == "unknown_or_invalid_event"
    talk.say("session.update", session={"type": "realtime", "instructions": "Sing."})
    assert talk.last("session.updated")["session"]["instructions"] == "Sing."


def test_a_callers_audio_is_fed_whatever_format_the_events_have() -> None:
    talk = Talk()
    talk.say("session.update", session={"audio": {"input": {"format": {"type": "audio/pcmu"}}}})
    effects = talk.call.listen(np.ones(320, np.int16), 16_000, 0.1, live=True)
    [audio] = [effect.frame for effect in effects if isinstance(effect, Feed)]
    assert isinstance(audio, Audio)
    assert (audio.rate_hz, len(audio.pcm), audio.pcm[0]) == (16_000, 320, 1)


def test_replies_in_g711_are_heard_at_24_khz_all_the_same() -> None:
    talk = Talk()
    output = {"format": {"type": "audio/pcmu"}}
    talk.say("session.update", session={"audio": {"output": output}})
    talk.answer(talk.utter(1, "Hello there."))
    talk.pass_(3.0)
    assert 1.9 < sum(map(len, talk.heard)) / 24_000 < 2.1
    assert "output_audio_buffer.stopped" in talk.kinds()


def test_only_what_the_caller_sends_keeps_an_idle_call_open() -> None:
    for live, ends in ((True, False), (False, True)):
        talk = Talk()
        talk.do(talk.call.listen(np.zeros(320, np.int16), 16_000, 500.0, live=live))
        talk.do(talk.call.tick(601.0))
        assert ("error" in talk.kinds()) is ends
