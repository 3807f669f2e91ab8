"""`/v1/audio/transcriptions` and translations with the official client: every format, every
parameter, every refusal."""

from __future__ import annotations

import asyncio
import base64
import io
import warnings
import wave

import httpx
import pytest

from motet.components.asr.checks import normalized
from motet.components.models import is_installed

from .conftest import FOX, RATE_HZ, SEA

openai = pytest.importorskip("openai")
hibari = pytest.importorskip("hibari")
pytestmark = [
    pytest.mark.skipif(not is_installed("whisper-tiny-en"), reason="the weights aren't installed"),
    pytest.mark.timeout(120),
]

FORM = "multipart/form-data"


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
    assert normalized("".join(one.token for one in got.logprobs)).startswith("the quick brown")
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
    assert [segment.text.lower() for segment in got.segments] == [FOX.lower(), SEA.lower()]
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
    assert srt[0].split("\n")[2].lower() == FOX.lower()
    assert " --> " in srt[0].split("\n")[1]
    assert "," in srt[0].split("\n")[1]
    vtt = ask(client, clip, response_format="vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:0")
    assert SEA.lower() in vtt.lower()


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
