"""`motet bench snac`: streams of the codec together and one by one, on weights of no meaning."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import torch as safe_tensors
from snac import SNAC  # pyright: ignore[reportMissingTypeStubs]

from ...components.base import Context, Resources, Setup
from ...components.codec.snac import SnacCodec
from ...components.frames import Audio, AudioTokens, Frame
from . import machine

# The 24 kHz codec's own shape, 19.8 million parameters; what they are doesn't change the cost.
CONFIG: dict[str, Any] = {
    "sampling_rate": 24_000,
    "encoder_dim": 48,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 1024,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
FRAME_S = 2048 / 24_000


@dataclass(frozen=True, slots=True)
class Report:
    """Seconds of sound per second, and the wait for the first sound, of both ways."""

    streams: int
    frames: int
    together: float
    one_by_one: float
    ratio: float
    realtime_streams: float
    first_sound_p50_ms: float
    machine: str


def run(streams: int, frames: int, cores: int) -> Report:
    """Measure `streams` streams of `frames` codec frames each."""
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder))
        return asyncio.run(measure(Path(folder), streams, frames, cores))


def save(folder: Path) -> None:
    """A model of the codec's shape."""
    build: Any = SNAC
    weights: Any = {name: part.contiguous() for name, part in build(**CONFIG).state_dict().items()}
    cast("Any", safe_tensors).save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))


async def measure(folder: Path, streams: int, frames: int, cores: int) -> Report:
    """One component: all streams at once, then one after the other."""
    cast("Any", torch).manual_seed(0)
    setup = Setup("codec", str(folder), resources=Resources(cores), concurrency=streams)
    codec = SnacCodec(setup)
    await codec.load()
    first: list[float] = []
    started = time.perf_counter()
    await asyncio.gather(*(speak(codec, frames, seed, first) for seed in range(streams)))
    together_s = time.perf_counter() - started
    started = time.perf_counter()
    for seed in range(streams):
        await speak(codec, frames, seed, [])
    single_s = time.perf_counter() - started
    await codec.close()
    sound_s = streams * frames * FRAME_S
    return Report(
        streams=streams,
        frames=frames,
        together=round(sound_s / together_s, 3),
        one_by_one=round(sound_s / single_s, 3),
        ratio=round(single_s / together_s, 2),
        realtime_streams=round(sound_s / together_s, 2),
        first_sound_p50_ms=round(float(np.median(first)) * 1000, 1),
        machine=machine.describe(),
    )


async def speak(codec: SnacCodec, frames: int, seed: int, first: list[float]) -> None:
    """One stream, its codes there at once; notes the wait for the first sound."""
    codes = np.random.default_rng(seed).integers(0, 4096, (frames, 7), dtype=np.int32)

    async def stream() -> AsyncIterator[Frame]:
        for row in codes:
            yield AudioTokens(row)

    started, waiting = time.perf_counter(), True
    async for frame in codec.run(stream(), Context()):
        if waiting and isinstance(frame, Audio):
            first.append(time.perf_counter() - started)
            waiting = False


def render(report: Report) -> str:
    """The report as a table."""
    return "\n".join(f"{name:20} {value}" for name, value in asdict(report).items())
