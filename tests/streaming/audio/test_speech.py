"""`/v1/audio/speech` and the voices with the official client."""

from __future__ import annotations

import base64
import io
import json
import time
import wave
from typing import Any

import av
import numpy as np
import pytest

from motet.components.asr.checks import normalized
from motet.components.models import is_installed

from .conftest import FOX, SEA

openai = pytest.importorskip("openai")
hibari = pytest.importorskip("hibari")
pytestmark = [
    pytest.mark.skipif(not is_installed("whisper-tiny-en"), reason="the weights aren't installed"),
    pytest.mark.timeout(120),
]


FORMATS = {"mp3": "mp3", "opus": "ogg", "aac": "aac", "flac": "flac", "wav": "wav", "pcm": None}


@pytest.mark.parametrize("audio_format", list(FORMATS))
def test_speech_in_every_format_says_the_text(client, clip, audio_format, tmp_path):
    got = client.audio.speech.create(
        model="tts-1", voice="alloy", input=FOX, response_format=audio_format
    )
    data = got.read()
    if audio_format == "pcm":
        pcm = np.frombuffer(data, "<i2")
    else:
        with av.open(io.BytesIO(data)) as file:
            assert file.format.name == FORMATS[audio_format]
            resample = av.AudioResampler("s16", "mono", 24_000)
            frames = [f for frame in file.decode(audio=0) for f in resample.resample(frame)]
            pcm = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    assert 2.0 < len(pcm) / 24_000 < 4.5
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(pcm.astype("<i2").tobytes())
    heard = client.audio.transcriptions.create(file=("talk.wav", out.getvalue()), model="whisper-1")
    assert normalized(heard.text) == normalized(FOX)


def test_speech_begins_before_it_is_all_made(client):
    text = " ".join([FOX, SEA] * 40)
    began_s = time.perf_counter()
    first_s = None
    with client.audio.speech.with_streaming_response.create(
        model="speak", voice="heart", input=text, response_format="pcm"
    ) as response:
        for _ in response.iter_bytes(4096):
            first_s = first_s or time.perf_counter() - began_s
    whole_s = time.perf_counter() - began_s
    assert first_s < 0.5 * whole_s


def test_speech_as_events(client):
    with client.audio.speech.with_streaming_response.create(
        model="speak", voice={"id": "heart"}, input=FOX, response_format="wav", stream_format="sse"
    ) as response:
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    audio = b"".join(
        base64.b64decode(one["audio"]) for one in events if one["type"] == "speech.audio.delta"
    )
    assert audio[:4] == b"RIFF"
    assert len(audio) > 80_000
    assert events[-1]["type"] == "speech.audio.done"


def test_voices_are_listed_and_each_of_them_speaks(client):
    listed = client.get("/audio/voices", cast_to=dict[str, Any])
    kind = pytest.importorskip("openai.types.audio").Voice
    voices = [kind.model_validate(one, strict=True) for one in listed["data"]]
    assert voices[0].id == "heart"
    assert listed["data"][0]["motet"]["pipelines"] == ["speak"]
    assert client.get("/audio/voices/heart", cast_to=kind) == voices[0]
    with pytest.raises(openai.NotFoundError, match="heart"):
        client.get("/audio/voices/nobody", cast_to=kind)
    with pytest.raises(openai.BadRequestError, match="voice file"):
        client.audio.voices.create(name="mine", prompt="a calm voice", type="prompt")


def test_speed_changes_the_length(client):
    lengths = [
        len(
            client.audio.speech.create(
                model="speak", voice="heart", input=FOX, response_format="pcm", speed=speed
            ).read()
        )
        for speed in (0.5, 1.0, 2.0)
    ]
    assert lengths[0] > 1.5 * lengths[1] > 2.2 * lengths[2]


@pytest.mark.parametrize(
    "options",
    [
        {"input": ""},
        {"input": "你好"},
        {"speed": 9.0},
        {"instructions": "whisper"},
        {"response_format": "midi"},
    ],
)
def test_speech_refuses_what_it_cannot_do(client, options):
    body = {"model": "speak", "voice": "heart", "input": FOX, **options}
    with pytest.raises(openai.BadRequestError):
        client.audio.speech.create(**body)
