"""A whole call through the realtime protocol: carrier messages in, carrier messages out."""

from __future__ import annotations

import base64
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
from motet.streaming.realtime.effects import Cancel, Close, Effect, Feed, Open, Send
from motet.streaming.realtime.protocol import RealtimeProtocol
from motet.streaming.realtime.settings import Offer
from motet.streaming.telephony.dialects import DIALECTS, dialect
from motet.streaming.telephony.protocol import CallProtocol

from .test_dialects import STARTS


def made(name: str = "twilio") -> CallProtocol:
    call = CallProtocol(dialect(name), RealtimeProtocol(Offer(), now_s=0.0))
    call.start()
    call.receive(json.dumps({"event": "connected", "version": "1.0.0"}), 0.0)
    call.receive(json.dumps(STARTS[name]), 0.0)
    return call


def sent(effects: list[Effect]) -> list[dict[str, Any]]:
    return [effect.event for effect in effects if isinstance(effect, Send)]


def spoken_turn(call: CallProtocol, now_s: float) -> tuple[int, list[Effect]]:
    """The caller asks; the turn that is opened for the answer, and everything that happened."""
    effects = call.hear(0, "turn", SpeechStarted(1, 0.0), now_s)
    effects += call.hear(0, "turn", SpeechStopped(1, 900.0), now_s)
    effects += call.hear(0, "asr", Transcript("Hello there.", True, 1), now_s)
    [opened] = [effect for effect in effects if isinstance(effect, Open)]
    return opened.turn, effects


def speak(call: CallProtocol, turn: int, now_s: float) -> list[Effect]:
    tone = (6000 * np.sin(np.arange(24_000) * 2 * np.pi * 400 / 24_000)).astype(np.int16)
    effects = call.hear(turn, "llm", TextDelta("Good day to you."), now_s)
    effects += call.hear(turn, "tts", Spoken("Good day to you.", 0.0, 1000.0), now_s)
    return effects + call.hear(turn, "tts", Audio(tone, 24_000), now_s)


@pytest.mark.parametrize("name", list(DIALECTS))
def test_a_call_is_heard_and_answered(name: str) -> None:
    call = made(name)
    pcm = np.full(160, 0x55, np.uint8).tobytes() if name != "exotel" else bytes(3_200)
    media = {"event": "media", "media": {"chunk": 1, "payload": base64.b64encode(pcm).decode()}}
    fed = [e for e in call.receive(json.dumps(media), 0.02) if isinstance(e, Feed)]
    assert any(isinstance(e.frame, Audio) for e in fed)
    turn, _ = spoken_turn(call, 1.0)
    effects = speak(call, turn, 1.1)
    effects += call.hear(turn, "llm", Completed(), 1.2)
    effects += call.hear(turn, "tts", End(), 1.2)
    out = sent(effects)
    kinds = {message["event"] for message in out}
    assert kinds == ({"playAudio", "checkpoint"} if name == "plivo" else {"media", "mark"})
    audio = b"".join(base64.b64decode(m["media"]["payload"]) for m in out if "media" in m)
    assert len(audio) == pytest.approx(16_000 if name == "exotel" else 8_000, abs=3_200)


def test_barge_in_clears_the_line_and_history_keeps_what_was_heard() -> None:
    call = made()
    turn, _ = spoken_turn(call, 1.0)
    marks = [m["mark"]["name"] for m in sent(speak(call, turn, 1.1)) if m["event"] == "mark"]
    call.receive(json.dumps({"event": "mark", "mark": {"name": marks[0]}}), 1.4)
    effects = call.hear(0, "turn", SpeechStarted(2, 3000.0), 1.5)
    assert sent(effects)[0] == {"event": "clear", "streamSid": "MZ1"}
    assert [e.turn for e in effects if isinstance(e, Cancel)] == [turn]
    after = call.hear(turn, "tts", Audio(np.zeros(2400, np.int16), 24_000), 1.6)
    assert sent(after) == []


def test_keys_become_a_turn() -> None:
    call = made()
    call.receive(json.dumps({"event": "dtmf", "dtmf": {"digit": "7"}}), 2.0)
    assert call.next_deadline() == pytest.approx(3.5)
    [opened] = [e for e in call.tick(3.5) if isinstance(e, Open)]
    assert opened.turn > 0


def test_stop_closes_normally_and_once() -> None:
    call = made()
    assert call.receive(json.dumps({"event": "stop"}), 5.0) == [Close(1000, "")]
    assert call.receive(json.dumps({"event": "stop"}), 5.1) == []


@pytest.mark.parametrize("message", ["no json", "[]", '{"event": "media", "media": {}}'])
def test_what_cannot_be_understood_ends_the_call_with_the_reason(message: str) -> None:
    [close] = made().receive(message, 1.0)
    assert isinstance(close, Close)
    assert close.code == 1008
    assert close.reason


def test_a_call_for_a_voice_that_nobody_has_ends_with_the_voices_there_are() -> None:
    call = CallProtocol(dialect("twilio"), RealtimeProtocol(Offer(voices=("ada",)), now_s=0.0))
    call.start()
    (effect,) = call.receive(json.dumps(STARTS["twilio"]), 0.0)
    assert isinstance(effect, Close)
    assert effect.code == 1008
    assert "'heart'" in effect.reason
    assert "possible: ada" in effect.reason
