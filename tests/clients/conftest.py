"""Servers and a spoken question for clients that run in environments of their own."""

from __future__ import annotations

import asyncio
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caller import quiet, speech
from clients import QUESTION, Run, python_of
from serving import listening, serving
from voicespec import voice_spec

from motet.pipelines import build, load
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

HERE = Path(__file__).parent


@pytest.fixture
def run_client() -> Run:
    """Run a script of this folder in a client's environment; what it printed as JSON."""

    async def run(name: str, script: str, *arguments: object) -> dict[str, Any]:
        python = await asyncio.to_thread(python_of, name)
        command = [str(python), str(HERE / script), *map(str, arguments)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 90)
        assert process.returncode == 0, err.decode()[-3000:]
        return json.loads(out)

    return run


@pytest.fixture(scope="session")
def question(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spoken question as a WAV file, 24 kHz mono, with silence around it."""
    path = tmp_path_factory.mktemp("speech") / "question.wav"
    pcm = np.concatenate([quiet(0.3), speech(QUESTION), quiet(1.2)])
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(pcm.astype("<i2").tobytes())
    return path


@pytest.fixture(scope="session")
def voice() -> Iterator[str]:
    """The default voice pipeline, whole."""
    with serving(load("voice")) as address:
        yield address


@pytest.fixture(scope="session")
def tools() -> Iterator[str]:
    """Real ears and voice around a model that calls tools on cue."""
    asr = {"use": "fakes:Hear", "options": {"text": "what is the weather in Oslo"}}
    spec = voice_spec("tools", vad="vad/silero", asr=asr, llm="toolfake:Caller", tts="tts/hibari")
    graph = build(PipelineSpec.model_validate(spec))
    with listening(create_app(Server.make([graph], Settings()))) as address:
        yield address
