"""Settings of a realtime session, its formats, what it transcribes and tells."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import Event, audio_of, manual, said, spoken_item
from talk import Talk, pcm

from motet.components.frames import (
    Audio,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    Transcript,
    TurnSettings,
    Voice,
)
from motet.components.g711 import ulaw_decode
from motet.pipelines.spec import ConversationSpec


def test_only_what_is_present_changes() -> None:
    talk = Talk()

    def detect(wish: Event) -> Event:
        return talk.update(audio={"input": {"turn_detection": wish}})[0]["session"]

    talk.update(instructions="Sing.")
    detect({"threshold": 0.7})
    session = talk.update(audio={"input": {"turn_detection": {"silence_duration_ms": 900}}})[0][
        "session"
    ]
    assert session["instructions"] == "Sing."
    assert session["audio"]["input"]["turn_detection"]["threshold"] == 0.7
    session = talk.update(audio={"input": {"turn_detection": {"type": "semantic_vad"}}})[0][
        "session"
    ]
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "auto",
        "create_response": True,
        "interrupt_response": True,
    }
    session = talk.update(
        instructions="", tools=[], audio={"input": {"turn_detection": None, "transcription": None}}
    )[0]["session"]
    assert session["instructions"] == ""
    assert session["audio"]["input"]["turn_detection"] is None
    assert session["audio"]["input"]["transcription"] is None
    fed = [f for f in talk.fed if isinstance(f, TurnSettings)]
    assert [f.mode for f in fed] == ["server", "server", "server", "semantic", "manual"]


FIRST_WORDS = [
    {"model": "gpt-realtime", "tracing": None, "audio": {"output": {"voice": "ash"}}},
    {"tracing": "auto"},
    {"output_modalities": ["audio", "text"], "prompt": None, "reasoning": {"effort": "low"}},
    {
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": None,
                "transcription": {"model": "gpt-4o-mini-transcribe", "language": None},
                "turn_detection": {"type": "semantic_vad", "eagerness": "medium"},
            },
            "output": {"voice": {"id": "voice_1"}, "speed": None},
        },
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": None,
        "include": None,
        "truncation": {"type": "retention_ratio", "retention_ratio": 0.8},
    },
]


@pytest.mark.parametrize("session", FIRST_WORDS)
def test_what_clients_say_first_is_accepted(session: Event) -> None:
    assert Talk().types(Talk().update(**session)) == ["session.updated"]


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {"output": {"speed": 9}}}, "session.audio.output.speed"),
        (
            {"audio": {"input": {"format": {"type": "audio/mp3"}}}},
            "session.audio.input.format.type",
        ),
        (
            {"audio": {"output": {"format": {"type": "audio/pcmu", "rate": 24000}}}},
            "session.audio.output.format.rate",
        ),
        ({"tool_choice": {"type": "function", "name": "f"}}, "session.tool_choice"),
        ({"output_modalities": []}, "session.output_modalities"),
        ({"tools": [{"type": "function"}]}, "session.tools.0.name"),
    ],
)
def test_a_wrong_setting_is_named_and_changes_nothing(session: Event, param: str) -> None:
    talk = Talk()
    before = talk.protocol.settings
    (event,) = talk.update(**session)
    assert event["error"]["param"] == param
    assert talk.protocol.settings == before


def test_the_voice_is_fixed_once_it_was_heard() -> None:
    talk = Talk()
    talk.update(audio={"output": {"voice": "alloy"}})
    talk.utter("Hello.")
    talk.reply("Hi.")
    talk.finish()
    assert talk.types(talk.update(audio={"output": {"voice": "alloy"}})) == ["session.updated"]
    (event,) = talk.update(audio={"output": {"voice": "ash"}})
    assert event["error"]["code"] == "cannot_update_voice"


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma"])
def test_telephone_audio_both_ways(name: str) -> None:
    talk = Talk()
    talk.update(audio={"input": {"format": {"type": name}}, "output": {"format": {"type": name}}})
    talk.say("input_audio_buffer.append", audio=base64.b64encode(b"\x55" * 801).decode())
    heard = [f for f in talk.fed if isinstance(f, Audio)]
    assert (heard[0].rate_hz, sum(len(f.pcm) for f in heard)) == (8000, 801)
    talk.utter("Hello.")
    tone = (8000 * np.sin(np.arange(24_000) * 2 * np.pi * 440 / 24_000)).astype(np.int16)
    for start in range(0, 24_000, 500):
        talk.hear(1, "tts", Audio(tone[start : start + 500], 24_000))
    talk.finish()
    heard_back = audio_of(talk)
    assert len(heard_back) == 8000, "one second stays one second"
    if name == "audio/pcmu":
        power = np.abs(np.fft.rfft(ulaw_decode(heard_back).astype(float)))
        assert abs(int(np.argmax(power)) - 440) <= 1


@given(st.lists(st.integers(0, 700), max_size=12), st.sampled_from([8000, 16_000, 22_050, 44_100]))
def test_audio_keeps_its_length_through_any_cut_and_rate(cuts: list[int], rate_hz: int) -> None:
    talk = Talk()
    talk.utter("Hello.")
    for length in cuts:
        talk.hear(1, "tts", Audio(np.ones(length, np.int16), rate_hz))
    talk.finish()
    assert abs(len(audio_of(talk)) / 2 - sum(cuts) * 24_000 / rate_hz) <= 1


def test_partial_transcripts_grow_into_the_final_one() -> None:
    talk = Talk()
    number = talk.start_speech()
    for text in ("What", "What is", "What", "What is the"):
        talk.hear(0, "asr", Transcript(text, False, number))
    talk.stop_speech(number, "What is the time?")
    head = "conversation.item.input_audio_transcription."
    deltas = [e["delta"] for e in talk.events if e["type"] == head + "delta"]
    assert "".join(deltas) == "What is the time?"
    assert talk.last(head + "completed")["usage"] == {"type": "duration", "seconds": 0.9}


def test_without_transcription_the_model_hears_but_the_client_is_not_told() -> None:
    talk = Talk()
    talk.update(audio={"input": {"transcription": None}})
    talk.utter("Hello.")
    assert not any("transcription" in kind for kind in talk.types())
    assert said(talk) == [("user", "Hello.")]


def test_a_transcription_session_only_transcribes() -> None:
    talk = Talk()
    wish = {"type": "transcription", "include": ["item.input_audio_transcription.logprobs"]}
    session = talk.say("session.update", session=wish)[0]["session"]
    assert session["type"] == "transcription"
    assert "output" not in session["audio"]
    talk.utter("Hello.")
    talk.pass_(5)
    assert "response.created" not in talk.types()
    assert talk.last("conversation.item.input_audio_transcription.completed")["logprobs"] == []
    assert talk.say("response.create")[0]["type"] == "error"


def test_audio_inside_an_item_is_transcribed_in_its_place() -> None:
    talk = manual()
    part = {"type": "input_audio", "audio": pcm(700)}
    item = {"id": "mine", "type": "message", "role": "user", "content": [part]}
    talk.say("conversation.item.create", item=item)
    talk.say("response.create")
    assert talk.opened == {}
    talk.hear(
        0,
        "turn",
        SpeechStarted(1, 0, detected=False),
        SpeechStopped(1, 700, detected=False),
    )
    talk.hear(0, "asr", Transcript("Hello from a file.", True, 1))
    assert said(talk) == [("user", "Hello from a file.")]
    talk.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    talk.append(2000)
    talk.finish()
    event = talk.hear(0, "turn", SpeechStarted(2, 1700))[0]
    assert event["audio_start_ms"] == 1000, "times count the client's stream alone"


def test_pictures_come_as_data_and_are_never_fetched() -> None:
    talk = Talk()
    data = base64.b64encode(b"png bytes").decode()

    def show(url: str) -> list[Event]:
        parts = [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": url},
        ]
        item = {"type": "message", "role": "user", "content": parts}
        return talk.say("conversation.item.create", item=item)

    assert show("https://example.org/a.png")[0]["error"]["param"] == "item.content.1.image_url"
    assert talk.types(show(f"data:image/png;base64,{data}"))[0] == "conversation.item.added"
    talk.say("response.create")
    assert talk.prompt()[0].images[0].data == b"png bytes"


def test_a_voice_and_its_speed_reach_the_engine() -> None:
    talk = Talk()
    effects = talk.protocol.receive(
        {
            "type": "response.create",
            "response": {"audio": {"output": {"voice": "marin", "speed": 1.25}}},
        },
        0.0,
    )
    frames = [frame for effect in effects for frame in getattr(effect, "frames", ())]
    assert frames[0] == Voice("marin", 1.25)
    frames = []
    talk = Talk(ConversationSpec(voice="ada"))
    for effect in talk.protocol.receive({"type": "response.create"}, 0.0):
        frames += getattr(effect, "frames", ())
    assert frames[0] == Voice("ada", 1.0, exact=True), "the engine refuses what it hasn't"


@pytest.mark.parametrize("voice", ["Ada", {"id": "adam"}, ""])
def test_a_voice_that_neither_the_engine_nor_openai_has_is_an_error(voice: Any) -> None:
    talk = Talk(voices=("ada", "bob"))
    output = {"audio": {"output": {"voice": voice}}}
    for known in ("ada", "alloy", "default", {"id": "bob"}):
        (event,) = talk.update(audio={"output": {"voice": known}})
        assert event["type"] == "session.updated"
    (error,) = talk.update(**output)
    assert error["error"]["param"] == "session.audio.output.voice"
    assert "possible: ada, bob" in error["error"]["message"]
    (error,) = talk.say("response.create", response=output)
    assert error["error"]["param"] == "response.audio.output.voice"
    assert talk.protocol.settings.voice == "bob"


def test_timings_are_told_to_those_who_ask_and_add_up() -> None:
    talk = Talk(timings=True)
    for _ in range(10):
        talk.append(100)
        talk.pass_(0.1)
    number = talk.start_speech(100)
    talk.pass_(0.2)
    talk.hear(0, "turn", SpeechStopped(number, 1000))
    talk.pass_(0.1)
    talk.hear(0, "asr", Transcript("Hello.", True, number))
    talk.pass_(0.05)
    talk.hear(1, "llm", TextDelta("Hi."))
    talk.pass_(0.07)
    talk.reply("Hi.")
    told = talk.last("motet.turn.timings")
    stages = ("vad_ms", "end_of_turn_ms", "asr_ms", "llm_first_token_ms", "tts_first_audio_ms")
    assert sum(told[name] for name in stages) == pytest.approx(told["total_ms"], abs=0.5)
    assert told["asr_ms"] == pytest.approx(100, abs=1)
    assert told["llm_first_token_ms"] == pytest.approx(50, abs=1)
    assert told["tts_first_audio_ms"] == pytest.approx(70, abs=1)
    assert told["item_id"] == spoken_item(talk)
    talk.finish()
    assert talk.reports[0].stages_ms["total_ms"] == told["total_ms"]
    quiet = Talk()
    quiet.utter("Hello.")
    quiet.reply("Hi.")
    assert not any(kind.startswith("motet.") for kind in quiet.types())
