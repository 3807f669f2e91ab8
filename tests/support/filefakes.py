"""A transcriber of files without a model: loud is speech, and each chunk says who decoded it."""

from __future__ import annotations

import os
import threading
import time
import wave
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from motet.components.asr.file import FileAsr
from motet.components.asr.file_chunks import Chunk
from motet.components.asr.file_decode import Ask, ChunkText, Stopped
from motet.components.asr.file_lanes import Lanes
from motet.components.asr.file_language import LanguageVote
from motet.components.asr.file_options import FileOptions
from motet.components.asr.file_work import Models
from motet.components.base import Setup
from motet.components.frames import MediaFile, Word
from motet.components.silero import WINDOW, State

RATE_HZ = 16_000


def _check(language: str | None) -> str | None:
    return language


ENGINE: Any = SimpleNamespace(tokens=SimpleNamespace(multilingual=True, check_language=_check))


class LoudnessVad:
    """Calls loud windows speech."""

    def scan(self, samples: Any, state: Any = None) -> Any:
        padded = np.pad(samples, (0, -len(samples) % WINDOW))
        loud = np.abs(padded.reshape(-1, WINDOW)).max(axis=1) > 500
        return loud.astype(np.float32), state or State.fresh()


class Saying:
    """Decodes a chunk in `each_s`, but not before the file `gate` is there; hears German first."""

    def __init__(self, each_s: float, gate: str = "") -> None:
        self._each_s = each_s
        self._gate = Path(gate) if gate else None

    def decode(
        self, chunks: Sequence[Chunk], ask: Ask, vote: LanguageVote, stop: threading.Event
    ) -> list[ChunkText]:
        languages = vote.choose([{"de": 0.6, "en": 0.4}] * len(chunks), [1.0] * len(chunks))
        until_s = time.monotonic() + self._each_s * len(chunks)
        while time.monotonic() < until_s or (self._gate is not None and not self._gate.exists()):
            if stop.wait(0.005):
                raise Stopped
        return [self._text(one, lang) for one, lang in zip(chunks, languages, strict=True)]

    def _text(self, chunk: Chunk, language: str) -> ChunkText:
        text = f"{os.getpid()} heard {chunk.start} {int(np.abs(chunk.pcm).sum(dtype=np.int64))}."
        return ChunkText(text, language, words=(Word(f" {text}", 0.3, 0.6, 1.0),))


class StandInOptions(FileOptions):
    """What a chunk takes, and the file that must be there before any is done."""

    each_s: float = 0.02
    gate: str = ""


class StandIn(FileAsr):
    """`asr/file` with a decoder that costs nothing."""

    options = StandInOptions

    def __init__(self, setup: Setup) -> None:
        told = StandInOptions.model_validate(dict(setup.options))
        plain = {key: value for key, value in told if key in FileOptions.model_fields}
        super().__init__(replace(setup, options=plain))
        self._told = told
        # Half a second at work is a load, so that tests needn't wait for it.
        own = self._lanes
        self._lanes = Lanes(own.count, own.decoders, own.readers, mean_s=0.3)

    async def load(self) -> None:
        decoder: Any = Saying(self._told.each_s, self._told.gate)
        vad: Any = LoudnessVad()
        self._models = Models(ENGINE, decoder, vad)


def recording(path: Path, minutes: float, speech_s: float) -> MediaFile:
    """Minutes of ten seconds each: `speech_s` of a hum, the rest silence; each hums otherwise."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        for number in range(int(minutes * 6)):
            piece = np.zeros(10 * RATE_HZ, np.int16)
            piece[: int(speech_s * RATE_HZ)] = 3000 + number
            file.writeframes(piece.tobytes())
    return MediaFile(str(path), path.name, {})
