"""Voices that clients name: the engine's own, OpenAI's, and none that there isn't."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import openai
import pytest
from openai.types.audio.speech_create_params import Voice as Known
from serving import serving
from tonefake import Tone

from motet.components.frames import Voice
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.abilities import OPENAI_VOICES
from motet.streaming.rpc.typed import voice_of


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    folder: Path = tmp_path_factory.mktemp("voices")
    spec = {"name": "tone", "nodes": {"tts": {"use": "tonefake:Tone"}}, "edges": []}
    spec["edges"] = ["input -> tts -> output"]
    with (
        serving(build(PipelineSpec.model_validate(spec)), data_dir=folder) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as made,
    ):
        yield made


def spoken(client: openai.OpenAI, voice: object) -> str:
    """The voice that spoke."""
    asked = {"model": "tone", "voice": voice, "input": "Hello.", "response_format": "pcm"}
    assert client.audio.speech.create(**asked).read()  # type: ignore[arg-type]
    return Tone.spoke[-1]


@pytest.mark.parametrize(
    ("voice", "spoke"),
    [("high", "high"), ({"id": "high"}, "high"), ("low", "low"), ("default", "low")],
)
def test_the_engines_voices_speak(client: openai.OpenAI, voice: object, spoke: str) -> None:
    assert spoken(client, voice) == spoke


@pytest.mark.parametrize("voice", sorted(OPENAI_VOICES))
def test_openais_voices_are_the_default_one(client: openai.OpenAI, voice: str) -> None:
    assert spoken(client, voice) == "low"


@pytest.mark.parametrize("voice", ["nosuch", "Alloy", {"id": "nosuch"}, "", "högh"])
@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_others_are_refused_with_those_there_are(
    client: openai.OpenAI, voice: object, stream_format: str
) -> None:
    with pytest.raises(openai.BadRequestError, match="possible: low, high") as refused:
        client.audio.speech.create(
            model="tone",
            voice=voice,  # type: ignore[arg-type]
            input="Hello.",
            stream_format=stream_format,  # type: ignore[arg-type]
        )
    assert refused.value.code == "invalid_value"
    assert refused.value.body["message"].startswith("tts: no voice ")  # type: ignore[index]


def test_the_typed_service_wishes_the_same() -> None:
    assert voice_of("nosuch", 1.0) == Voice("nosuch", exact=True)
    assert voice_of("alloy", 1.0) == Voice("alloy")
    assert voice_of("", 2.0) == voice_of("default", 2.0) == Voice(None, 2.0)


def test_every_name_that_the_sdk_knows_is_known_here() -> None:
    kinds = [get_args(kind) for kind in get_args(Known)]
    assert {name for names in kinds for name in names} == OPENAI_VOICES
