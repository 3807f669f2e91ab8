"""A server that transcribes and speaks, its client, and a clip of two sentences."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator

import numpy as np
import pytest
import soxr
from serving import serving

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec

openai = pytest.importorskip("openai")
hibari = pytest.importorskip("hibari")

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
