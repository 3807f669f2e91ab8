"""`/v1/audio/…` with the official client: every format, every parameter, every refusal."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
import warnings
import wave
from collections.abc import Iterator
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soxr
from serving import serving

from motet.components.asr.checks import normalized
from motet.components.models import is_installed
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec

openai = pytest.importorskip("openai")
hibari = pytest.importorskip("hibari")
pytestmark = [
    pytest.mark.skipif(not is_installed("whisper-tiny-en"), reason="the weights aren't installed"),
    pytest.mark.timeout(120),
]

FOX = "The quick brown fox jumps over the lazy dog."
SEA = "The ship sailed slowly across the ocean last night."
RATE_HZ = 16_000
FORM = "multipart/form-data"


def pipeline(name: str, nodes: dict, *edges: str):
    return build(PipelineSpec.model_validate({"name": name, "nodes": nodes, "edges": edges}))


@pytest.fixture(scope="module")
def address(tmp_path_factory, postgres) -> Iterator[str]:
    asr = {"use": "asr/file", "model": "whisper-tiny-en", "options": {"beam_size": 1}}
    transcribe = pipeline(
        "transcribe",
        {"asr": asr, "diarize": {"use": "diarize/cluster"}},
        "input -> asr -> diarize -> output",
        "input -> diarize",
    )
    speak = pipeline("speak", {"tts": {"use": "tts/hibari"}}, "input -> tts -> output")
    folder = tmp_path_factory.mktemp("data")
    settings = {"data_dir": folder, "database_url": postgres, "max_upload_bytes": 4_000_000}
    with serving(transcribe, speak, **settings) as served:
        yield served
    assert list((folder / "uploads").glob("*")) == [], "uploads were left behind"


@pytest.fixture(scope="module")
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def clip() -> bytes:
    voice = hibari.Hibari()
    pause = np.zeros(RATE_HZ)
    speech = [soxr.resample(voice(text, seed=0), 24_000, RATE_HZ) for text in (FOX, SEA)]
    pcm = np.concatenate([speech[0], pause, speech[1]]) * 25_000
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(pcm.astype("<i2").tobytes())
    return out.getvalue()


def ask(client, clip: bytes, **options):
    return client.audio.transcriptions.create(file=("talk.wav", clip), model="whisper-1", **options)


def test_json_has_the_text_its_languages_and_what_it_cost(client, clip):
    got = ask(client, clip)
    assert normalized(got.text) == normalized(f"{FOX} {SEA}")
    assert [language.code for language in got.languages] == ["en"]
    assert got.usage.type == "duration"
    assert got.usage.seconds == pytest.approx(len(clip) / 32_000, abs=1)


def test_logprobs_cover_the_text(client, clip):
    got = ask(client, clip, include=["logprobs"])
    assert "".join(one.token for one in got.logprobs).strip().startswith("The quick")
    assert all(one.logprob <= 0 for one in got.logprobs)


def test_verbose_json_has_segments_and_words(client, clip):
    got = ask(
        client,
        clip,
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        language="en",
        temperature=0,
    )
    assert got.duration == pytest.approx((len(clip) - 44) / 32_000, abs=0.01)
    assert [segment.text for segment in got.segments] == [FOX, SEA]
    assert got.segments[0].avg_logprob < 0
    assert [normalized(word.word) for word in got.words] == normalized(f"{FOX} {SEA}").split()
    times = [moment for word in got.words for moment in (word.start, word.end)]
    assert times == sorted(times)
    assert times[-1] <= got.duration
    only = ask(client, clip, response_format="verbose_json", timestamp_granularities=["word"])
    assert only.segments is None


def test_text_srt_and_vtt(client, clip):
    assert normalized(ask(client, clip, response_format="text")) == normalized(f"{FOX} {SEA}")
    srt = ask(client, clip, response_format="srt").strip().split("\n\n")
    assert [block.split("\n")[0] for block in srt] == ["1", "2"]
    assert srt[0].split("\n")[2] == FOX
    assert " --> " in srt[0].split("\n")[1]
    assert "," in srt[0].split("\n")[1]
    vtt = ask(client, clip, response_format="vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:0")
    assert SEA in vtt


def test_diarized_json_names_speakers(client, clip):
    got = ask(client, clip, response_format="diarized_json", chunking_strategy="auto")
    assert {segment.speaker for segment in got.segments} <= {"A", "B"}
    assert got.segments[0].id == "seg_000"
    assert normalized(got.text) == normalized(f"{FOX} {SEA}")


def test_a_known_speaker_is_named(client, clip):
    reference = "data:audio/wav;base64," + base64.b64encode(clip).decode()
    got = ask(
        client,
        clip,
        response_format="diarized_json",
        known_speaker_names=["Heart"],
        known_speaker_references=[reference],
        chunking_strategy={"type": "server_vad", "threshold": 0.4},
    )
    assert {segment.speaker for segment in got.segments} == {"Heart"}


def test_streamed_deltas_join_to_the_final_text(client, clip):
    events = list(ask(client, clip, stream=True))
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert len(deltas) == 2
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "".join(deltas)
    assert normalized(events[-1].text) == normalized(f"{FOX} {SEA}")


def test_a_diarized_stream_ends_with_its_segments(client, clip):
    events = list(ask(client, clip, stream=True, response_format="diarized_json"))
    kinds = [event.type for event in events]
    assert kinds.index("transcript.text.segment") > kinds.index("transcript.text.delta")
    assert kinds[-1] == "transcript.text.done"


def test_translations_answer_in_their_formats(client, clip):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        create = client.audio.translations.create
        got = create(file=("talk.wav", clip), model="whisper-1", response_format="verbose_json")
    assert normalized(got.text) == normalized(f"{FOX} {SEA}")


@pytest.mark.parametrize(
    ("options", "param", "said"),
    [
        ({"timestamp_granularities": ["foo"], "response_format": "verbose_json"}, None, "'word'"),
        ({"timestamp_granularities": ["word"]}, None, "goes with verbose_json"),
        ({"response_format": "docx"}, "response_format", "'srt'"),
        ({"temperature": 3}, "temperature", "less than or equal to 1"),
        ({"include": ["logprobs"], "response_format": "text"}, None, "goes with json"),
        ({"stream": True, "response_format": "srt"}, None, "stream goes with"),
        ({"language": "xx"}, None, "known: en"),
        ({"language": "en", "extra_body": {"languages": ["de"]}}, None, "exclude each other"),
        ({"extra_body": {"beans": 5}}, "beans", "known: model"),
        ({"known_speaker_names": ["A"], "response_format": "diarized_json"}, None, "as many"),
        (
            {
                "known_speaker_names": ["A"],
                "known_speaker_references": ["http://x"],
                "response_format": "diarized_json",
            },
            "known_speaker_references",
            "no data URL",
        ),
    ],
)
def test_wrong_parameters_are_400s_that_say_what_is_possible(client, clip, options, param, said):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, clip, **options)
    assert said in caught.value.message
    if param:
        assert caught.value.param == param


@pytest.mark.parametrize(
    ("data", "said"), [(b"", "empty"), (b"\x00\x01 no audio at all" * 99, "can't be read")]
)
def test_bad_files_are_400s(client, data, said):
    with pytest.raises(openai.BadRequestError, match=said):
        ask(client, data)


def test_an_upload_over_the_limit_is_413(address):
    body = io.BytesIO(bytes(5_000_000))
    form = {"file": ("a.wav", body)}
    got = httpx.post(f"{address}/v1/audio/transcriptions", files=form, data={"model": "x"})
    assert got.status_code == 413
    assert got.json()["error"]["code"] == "too_large"


@pytest.mark.parametrize(
    "request_",
    [
        {"content": b"hello", "headers": {"content-type": "text/plain"}},
        {
            "content": b"--x\r\nbroken",
            "headers": {"content-type": "multipart/form-data; boundary=x"},
        },
        {"data": {"model": "whisper-1"}, "files": {"other": b"x"}},
        {"data": {"model": "whisper-1"}, "files": [("file", b"x"), ("file", b"y")]},
    ],
    ids=["no form", "broken", "no file", "two files"],
)
def test_broken_forms_are_400s(address, request_):
    got = httpx.post(f"{address}/v1/audio/transcriptions", **request_)
    assert got.status_code == 400
    assert got.json()["error"]["message"]


async def test_hanging_up_stops_the_work(address, clip):
    with wave.open(io.BytesIO(clip)) as file:
        pcm = file.readframes(file.getnframes())
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes((pcm + bytes(40_000)) * 12)
    async with httpx.AsyncClient() as http:
        form = {"files": {"file": ("a.wav", out.getvalue())}, "data": {"model": "x"}}
        with pytest.raises(httpx.ReadTimeout):
            await http.post(f"{address}/v1/audio/transcriptions", **form, timeout=0.7)
        for _ in range(60):
            state = (await http.get(f"{address}/v1/status")).json()
            if sessions_of(state) == 0:
                return
            await asyncio.sleep(0.1)
    pytest.fail("the request's session outlived its client")


def sessions_of(state) -> int:
    return sum(one["sessions"] for one in state["pipelines"] if one["name"] == "transcribe")


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
    assert normalized(ask(client, out.getvalue()).text) == normalized(FOX)


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
    [{"input": ""}, {"speed": 9.0}, {"instructions": "whisper"}, {"response_format": "midi"}],
)
def test_speech_refuses_what_it_cannot_do(client, options):
    body = {"model": "speak", "voice": "heart", "input": FOX, **options}
    with pytest.raises(openai.BadRequestError):
        client.audio.speech.create(**body)
