"""A call as a state machine: what the session and the carrier are told, and when."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import BadInput
from motet.streaming.telephony.call import Call, Step
from motet.streaming.telephony.dialects import DIALECTS, dialect

from .test_dialects import STARTS


def begun(name: str = "twilio", start: dict[str, Any] | None = None) -> Call:
    call = Call(dialect(name))
    call.receive(start or STARTS[name], 0.0)
    return call


def speech(ms: int, fill: int = 0x7E) -> str:
    return base64.b64encode(bytes([fill]) * (8 * ms)).decode()


def delta(ms: int, item: str = "item_a", audio: str | None = None) -> dict[str, Any]:
    return {
        "type": "response.output_audio.delta",
        "item_id": item,
        "delta": speech(ms) if audio is None else audio,
    }


def payloads(step: Step) -> list[bytes]:
    return [base64.b64decode(m["media"]["payload"]) for m in step.messages if "media" in m]


def marks(step: Step) -> list[str]:
    return [m["mark"]["name"] for m in step.messages if m["event"] == "mark"]


def echo(name: str) -> dict[str, Any]:
    return {"event": "mark", "streamSid": "MZ1", "mark": {"name": name}}


SPEECH_STARTED = {"type": "input_audio_buffer.speech_started", "item_id": "item_u"}
AUDIO_DONE = {"type": "response.output_audio.done", "item_id": "item_a"}


def test_start_sets_formats_voice_and_instructions() -> None:
    given = {"voice": "heart", "instructions": "Be brief.", "opening": "Greet."}
    inner = STARTS["twilio"]["start"] | {"customParameters": given}
    start = STARTS["twilio"] | {"start": inner}
    step = Call(dialect("twilio")).receive(start, 0.0)
    assert step.events == [
        {
            "type": "session.update",
            "event_id": "start",
            "session": {
                "type": "realtime",
                "output_modalities": ["audio"],
                "instructions": "Be brief.",
                "audio": {
                    "input": {"format": {"type": "audio/pcmu"}},
                    "output": {"format": {"type": "audio/pcmu"}, "voice": "heart"},
                },
            },
        },
        {"type": "response.create", "response": {"instructions": "Greet."}},
    ]


@pytest.mark.parametrize("name", ["twilio", "plivo", "telnyx"])
def test_caller_audio_passes_byte_for_byte(name: str) -> None:
    call = begun(name)
    media = {"event": "media", "media": {"chunk": "1", "payload": speech(20, 0x11)}}
    assert call.receive(media, 0.0).events == [
        {"type": "input_audio_buffer.append", "audio": speech(20, 0x11)}
    ]


def test_media_out_of_order_is_put_in_order_and_late_media_dropped() -> None:
    call = begun("telnyx")
    heard: list[int] = []
    for chunk in (1, 3, 2, 4, 4, 2, 6, 5):
        media = {"event": "media", "media": {"chunk": str(chunk), "payload": speech(1, chunk)}}
        for event in call.receive(media, 0.0).events:
            heard.append(base64.b64decode(event["audio"])[0])
    assert heard == [1, 2, 3, 4, 5, 6]


def test_a_lost_chunk_does_not_hold_the_call_up() -> None:
    call = begun("telnyx")
    heard: list[int] = []
    for chunk in (1, *range(3, 30)):
        media = {"event": "media", "media": {"chunk": str(chunk), "payload": speech(1, chunk)}}
        for event in call.receive(media, 0.0).events:
            heard.append(base64.b64decode(event["audio"])[0])
    assert heard == [1, *range(3, 30)]


def test_reply_goes_out_in_pieces_each_with_a_mark() -> None:
    step = begun().deliver(delta(500), 1.0)
    assert [m["event"] for m in step.messages] == ["media", "mark"] * 3
    assert [len(piece) for piece in payloads(step)] == [1600, 1600, 800]
    assert len(set(marks(step))) == 3


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=12))
def test_no_byte_of_a_reply_is_lost_or_doubled_whatever_its_chunks(sizes: list[int]) -> None:
    call = begun()
    sent = bytes(np.arange(sum(sizes), dtype=np.uint32).astype(np.uint8))
    got, at = b"", 0
    for size in sizes:
        chunk = base64.b64encode(sent[at : at + size]).decode()
        got += b"".join(payloads(call.deliver(delta(0, audio=chunk), 0.0)))
        at += size
    got += b"".join(payloads(call.deliver(AUDIO_DONE, 0.0)))
    assert got == sent


def test_barge_in_clears_and_tells_what_was_heard_by_marks_and_clock() -> None:
    call = begun()
    first, second, _ = marks(call.deliver(delta(600), 10.0))
    call.receive(echo(first), 10.25)
    call.receive(echo(second), 10.45)
    step = call.deliver(SPEECH_STARTED, 10.53)
    assert step.messages == [{"event": "clear", "streamSid": "MZ1"}]
    assert step.events == [
        {
            "type": "conversation.item.truncate",
            "item_id": "item_a",
            "content_index": 0,
            "audio_end_ms": 480,
        }
    ]


def test_a_silent_line_never_counts_as_heard() -> None:
    """The clock alone may not run past what the next mark would confirm."""
    call = begun()
    call.deliver(delta(600), 10.0)
    step = call.deliver(SPEECH_STARTED, 60.0)
    assert step.events[0]["audio_end_ms"] == 200


def test_marks_echoed_by_a_clear_are_not_heard() -> None:
    call = begun()
    sent = marks(call.deliver(delta(600), 10.0))
    call.deliver(SPEECH_STARTED, 10.1)
    for name in sent:
        assert call.receive(echo(name), 10.2) == Step()
    assert call.deliver(SPEECH_STARTED, 11.0) == Step()


def test_barge_in_after_everything_was_played_changes_nothing() -> None:
    call = begun()
    for name in marks(call.deliver(delta(300), 10.0)):
        call.receive(echo(name), 10.4)
    assert call.deliver(SPEECH_STARTED, 10.5) == Step()


def test_items_that_wait_behind_the_one_heard_were_not_heard() -> None:
    call = begun()
    call.deliver(delta(100, "item_a"), 10.0)
    call.deliver(delta(100, "item_b"), 10.0)
    step = call.deliver(SPEECH_STARTED, 10.05)
    heard = {event["item_id"]: event["audio_end_ms"] for event in step.events}
    assert heard == {"item_a": 50, "item_b": 0}


def test_keys_are_sent_as_one_text_after_a_pause() -> None:
    call = begun()
    for digit, now_s in (("4", 1.0), ("2", 1.8)):
        call.receive({"event": "dtmf", "dtmf": {"digit": digit}}, now_s)
    assert call.due_s == pytest.approx(3.3)
    assert call.tick(3.2) == Step()
    step = call.tick(3.3)
    assert [event["type"] for event in step.events] == [
        "conversation.item.create",
        "response.create",
    ]
    assert "42" in step.events[0]["item"]["content"][0]["text"]
    assert call.due_s is None


def test_hash_sends_at_once_and_cuts_the_reply_off() -> None:
    call = begun()
    call.deliver({"type": "response.created", "response": {"id": "resp_1"}}, 1.0)
    call.deliver(delta(200), 1.0)
    step = call.receive({"event": "dtmf", "dtmf": {"digit": "#"}}, 1.1)
    assert [event["type"] for event in step.events] == [
        "conversation.item.truncate",
        "response.cancel",
        "conversation.item.create",
        "response.create",
    ]
    assert step.messages == [{"event": "clear", "streamSid": "MZ1"}]


def test_exotel_gets_whole_blocks_of_linear_pcm() -> None:
    call = begun("exotel")
    pcm = (8000 * np.sin(np.arange(24_000) * 2 * np.pi * 400 / 24_000)).astype("<i2")
    got: list[bytes] = []
    for start in range(0, len(pcm), 777):
        chunk = base64.b64encode(pcm[start : start + 777].tobytes()).decode()
        got += payloads(call.deliver(delta(0, audio=chunk), 0.0))
    got += payloads(call.deliver(AUDIO_DONE, 0.0))
    assert all(len(piece) % 320 == 0 and 3_200 <= len(piece) <= 100_000 for piece in got)
    played = np.frombuffer(b"".join(got), "<i2")
    assert 8_000 <= len(played) < 8_000 + 1_600
    wave = 8000 * np.sin(np.arange(8_000) * 2 * np.pi * 400 / 8_000)
    assert np.abs(played[200:7_800] - wave[200:7_800]).max() < 80


def test_linear_pcm_of_the_caller_is_resampled_as_one_signal() -> None:
    call = begun("exotel")
    pcm = (8000 * np.sin(np.arange(16_000) * 2 * np.pi * 400 / 8_000)).astype("<i2").tobytes()
    heard = b""
    for start in range(0, len(pcm), 321):
        payload = base64.b64encode(pcm[start : start + 321]).decode()
        for event in call.receive({"event": "media", "media": {"payload": payload}}, 0.0).events:
            heard += base64.b64decode(event["audio"])
    got = np.frombuffer(heard, "<i2")
    assert 47_000 < len(got) <= 48_000
    wave = 8000 * np.sin(np.arange(len(got)) * 2 * np.pi * 400 / 24_000)
    assert np.abs(got[600:-600] - wave[600:-600]).max() < 80


@pytest.mark.parametrize("name", list(DIALECTS))
def test_stop_ends_the_call(name: str) -> None:
    assert begun(name).receive({"event": "stop"}, 9.0).over


def test_media_before_start_and_a_second_start_are_refused() -> None:
    with pytest.raises(BadInput, match="before start"):
        Call(dialect("twilio")).receive({"event": "media", "media": {"payload": "AA=="}}, 0.0)
    with pytest.raises(BadInput, match="second start"):
        begun().receive(STARTS["twilio"], 0.0)


def test_payload_that_is_no_base64_is_refused() -> None:
    with pytest.raises(BadInput, match="base64"):
        begun().receive({"event": "media", "media": {"payload": "no!"}}, 0.0)
