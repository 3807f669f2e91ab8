"""The speech that benchmarks speak: a sentence and then silence, in chunks of 20 ms at 24 kHz."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...components.audio import Resampler
from ...components.errors import BadInput
from ...components.frames import Samples

RATE_HZ = 24_000
CHUNK_MS = 20
QUESTION = "What is the capital of France?"


@dataclass(frozen=True, slots=True)
class Clip:
    """One cycle: `events` are ready-made append events, one for each 20 ms; speech ends with
    chunk `speech_chunks` - 1."""

    events: tuple[str, ...]
    speech_chunks: int


def spoken(text: str) -> tuple[Samples, int]:
    """A text as the built-in voice speaks it, and its rate."""
    from hibari import Hibari  # pyright: ignore[reportMissingTypeStubs]

    voice = Hibari()
    samples = np.asarray(voice(text), np.float32)
    return (samples * 32767).clip(-32768, 32767).astype(np.int16), RATE_HZ


def read(path: Path) -> tuple[Samples, int]:
    """The samples of an audio file's first channel, and its rate.

    Raises:
        BadInput: it isn't there, or is of no format that libsndfile reads.
    """
    import soundfile  # pyright: ignore[reportMissingTypeStubs]

    try:
        pcm, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise BadInput(str(error), where="--wav") from error
    return np.ascontiguousarray(pcm[:, 0], np.int16), rate_hz


def arrivals(chunks: int) -> Samples:
    """How many samples at 16 kHz are there after each chunk: a resampler looks ahead, so the last
    few milliseconds of a chunk come out with the next."""
    resampler = Resampler(RATE_HZ, 16_000)
    size = RATE_HZ * CHUNK_MS // 1000
    made = [len(resampler.push(np.zeros(size, np.int16))) for _ in range(chunks)]
    return np.cumsum(made)


def make(path: Path | None, cycle_s: float, noise_db: float | None = None) -> Clip:
    """A cycle of `cycle_s` seconds: the file's speech (or `QUESTION`), then silence; over all of
    it noise of so many dB below full scale, None for digital silence.

    Raises:
        BadInput: the file can't be read, is silent, or is longer than a cycle.
    """
    pcm, rate_hz = read(path) if path else spoken(QUESTION)
    resampler = Resampler(rate_hz, RATE_HZ)
    pcm = np.concatenate((resampler.push(pcm), resampler.flush()))
    loud = np.nonzero(np.abs(pcm.astype(np.int32)) > 400)[0]
    if not len(loud):
        raise BadInput(f"{path} is silent", where="--wav")
    pcm = pcm[: int(loud[-1]) + 1]
    pcm = (pcm * (20_000 / int(np.abs(pcm.astype(np.int32)).max()))).astype(np.int16)
    size = RATE_HZ * CHUNK_MS // 1000
    chunks = int(cycle_s * 1000 / CHUNK_MS)
    whole = np.zeros(chunks * size, np.int16)
    if len(pcm) > len(whole):
        takes_s = len(pcm) / RATE_HZ
        raise BadInput(f"is {cycle_s:g} s, the speech takes {takes_s:.1f} s", where="--cycle-s")
    whole[: len(pcm)] = pcm
    if noise_db is not None:
        noise = np.random.default_rng(0).normal(0, 32768 * 10 ** (noise_db / 20), len(whole))
        whole = (whole + noise).clip(-32768, 32767).astype(np.int16)
    events = [append(whole[n * size : (n + 1) * size]) for n in range(chunks)]
    return Clip(tuple(events), -(-len(pcm) // size))


def append(pcm: Samples) -> str:
    """The client event that sends a chunk."""
    audio = base64.b64encode(pcm.tobytes()).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": audio})
