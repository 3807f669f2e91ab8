"""Riva's methods: by NVIDIA's own client, unmodified, and what they refuse."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import rpcserving
from rpcserving import TONE, served, stream, wav

from motet.components.frames import Voice
from motet.components.wire import riva_asr_pb2 as asr
from motet.components.wire import riva_asr_pb2_grpc, riva_tts_pb2_grpc
from motet.components.wire import riva_common_pb2 as common
from motet.components.wire import riva_tts_pb2 as tts
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.rpc.riva_tts import voice_of

pytestmark = pytest.mark.timeout(40)


@pytest.mark.skipif(importlib.util.find_spec("riva") is None, reason="needs nvidia-riva-client")
async def test_an_unmodified_riva_client(tmp_path: Path) -> None:
    (tmp_path / "tone.wav").write_bytes(wav(TONE, 16_000))
    async with served(api_keys=("secret-1",)) as (address, _):
        program = Path(__file__).with_name("riva_client.py")
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            address,
            str(tmp_path / "tone.wav"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await child.communicate()
    assert child.returncode == 0, errors.decode()[-2000:]
    got: dict[str, Any] = json.loads(out)
    assert got["offline"] == [
        "16000 samples, peak 700, language en ",
        "8000 samples, peak 700, language en ",
    ]
    assert [one["final"] for one in got["streaming"]] == [False, True, False, True]
    assert got["streaming"][-1]["seconds"] == pytest.approx(1.5)
    assert sum(int(one["text"].split()[0]) for one in got["streaming"] if one["final"]) == 24_000
    assert got["models"] == ["hear"]
    assert got["asr_parameters"]["streaming"] == "True"
    assert got["asr_parameters"]["language_code"] == "de,en"
    assert got["spoken_bytes"] == 300 * 16 * 2
    assert got["pieces"] == [4800, 4800]
    assert [voice["subvoices"] for voice in got["voices"]] == ["ada:0,bob:1"] * 2


@pytest.mark.parametrize(
    ("config", "param"),
    [
        ({"profanity_filter": True}, "profanity_filter"),
        ({"diarization_config": {"enable_speaker_diarization": True}}, "diarization_config"),
        ({"custom_configuration": {"a": "b"}}, "custom_configuration"),
        ({"encoding": common.FLAC}, "encoding"),
        ({"language_code": "ja-JP"}, "language_code 'ja-JP' isn't possible; known: de, en"),
    ],
)
async def test_what_no_pipeline_does_is_refused_by_name(config: Any, param: str) -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = riva_asr_pb2_grpc.RivaSpeechRecognitionStub(channel)
        with pytest.raises(grpc.aio.AioRpcError, match=param) as caught:
            await stub.Recognize(asr.RecognizeRequest(config=config, audio=bytes(3200)))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_encodings_of_speech_and_refusals() -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel)
        request = tts.SynthesizeSpeechRequest(text="a", sample_rate_hz=8000)
        request.encoding = common.MULAW
        request.id.value = "mine"
        answer = await stub.Synthesize(request)
        assert len(answer.audio) == 800
        assert (answer.id.value, answer.meta.text) == ("mine", "a")
        request.text = "a" * 30_000
        with pytest.raises(grpc.aio.AioRpcError, match="SynthesizeOnline"):
            await stub.Synthesize(request)
        request.enable_word_time_offsets = True
        with pytest.raises(grpc.aio.AioRpcError, match="enable_word_time_offsets"):
            await stub.Synthesize(request)


async def test_a_text_without_a_sound_is_the_callers_fault_but_costs_the_others_nothing() -> None:
    said, silent = tts.SynthesizeSpeechRequest(text="a"), tts.SynthesizeSpeechRequest()
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="makes no sound") as error:
            await stub.Synthesize(silent)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError, match="makes no sound"):
            [one async for one in stub.SynthesizeOnline(stream(silent, silent))]
        got = [one async for one in stub.SynthesizeOnline(stream(silent, said, silent))]
        assert [len(one.audio) for one in got] == [4800]


async def test_voices_are_told_with_their_own_rate_and_languages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = {"tts": {"use": "tonefake:Tone"}}
    spec = {"name": "tone", "nodes": nodes, "edges": ["input -> tts -> output"]}
    made = [build(PipelineSpec.model_validate(spec)), *rpcserving.graphs()]
    monkeypatch.setattr(rpcserving, "graphs", lambda: made)
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel)
        answer = await stub.GetRivaSynthesisConfig(tts.RivaSynthesisConfigRequest())
    tone, *others = [dict(one.parameters) for one in answer.model_config]
    assert (tone["sample_rate"], tone["language_code"]) == ("16000", "de,nds")
    assert not any({"sample_rate", "language_code"} & set(one) for one in others), "none known"


@pytest.mark.parametrize(
    ("name", "voice"),
    [
        ("", Voice(None)),
        ("default", Voice(None)),
        ("English-US.Female-1", Voice(None)),
        ("ada", Voice("ada", exact=True)),
    ],
)
def test_riva_names_of_voices_are_the_default_and_all_others_are_meant(
    name: str, voice: Voice
) -> None:
    assert voice_of(name) == voice


async def test_the_first_message_of_a_stream_must_be_its_config() -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = riva_asr_pb2_grpc.RivaSpeechRecognitionStub(channel)
        wrong = asr.StreamingRecognizeRequest(audio_content=np.zeros(10, "<i2").tobytes())
        with pytest.raises(grpc.aio.AioRpcError, match="the first message must be the config"):
            [one async for one in stub.StreamingRecognize(stream(wrong))]


@pytest.mark.parametrize(
    ("asked", "told"), [("en-US", "en-US"), ("de-DE", "de-DE"), ("multi", "en"), ("", "en")]
)
async def test_the_language_told_is_the_one_that_was_heard(asked: str, told: str) -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = riva_asr_pb2_grpc.RivaSpeechRecognitionStub(channel)
        config = {"language_code": asked, "encoding": common.LINEAR_PCM}
        answer = await stub.Recognize(asr.RecognizeRequest(config=config, audio=bytes(3200)))
    (one,) = answer.results[0].alternatives
    assert list(one.language_code) == [told]
