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
from ...components.codec.decoder import load
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
    """Seconds of sound per second of each way, and what streams that come at their own pace see.

    `itself` is the snac package as it is, whole windows one by one; `ratio` compares `together`
    with `one_by_one`. A stream holds when none of its sound comes more than a frame late.
    """

    streams: int
    frames: int
    itself: float
    one_by_one: float
    together: float
    ratio: float
    realtime_streams: int
    first_sound_p50_ms: float
    machine: str


def run(streams: int, frames: int, cores: int, rounds: int) -> Report:
    """Measure `streams` streams of `frames` codec frames each, all ways in each round."""
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder))
        return asyncio.run(measure(Path(folder), streams, frames, cores, rounds))


def save(folder: Path) -> None:
    """A model of the codec's shape."""
    build: Any = SNAC
    weights: Any = {name: part.contiguous() for name, part in build(**CONFIG).state_dict().items()}
    cast("Any", safe_tensors).save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))


async def measure(folder: Path, streams: int, frames: int, cores: int, rounds: int) -> Report:
    """The rounds, then as many realtime streams as hold."""
    setup = Setup("codec", str(folder), resources=Resources(cores), concurrency=streams)
    codec, original = SnacCodec(setup), load(folder)
    await codec.load()
    spent = {"itself": 0.0, "one_by_one": 0.0, "together": 0.0}
    for _ in range(rounds):
        started = time.perf_counter()
        # Its cost doesn't depend on the stream: two windows stand for all of them.
        await asyncio.to_thread(whole_windows, original, 2)
        spent["itself"] += (time.perf_counter() - started) / 2 * streams * frames
        started = time.perf_counter()
        for seed in range(streams):
            await speak(codec, frames, seed)
        spent["one_by_one"] += time.perf_counter() - started
        started = time.perf_counter()
        await asyncio.gather(*(speak(codec, frames, seed) for seed in range(streams)))
        spent["together"] += time.perf_counter() - started
    held, first_ms = await realtime(codec, streams, frames)
    await codec.close()
    speed = {name: rounds * streams * frames * FRAME_S / s for name, s in spent.items()}
    return Report(
        streams=streams,
        frames=frames,
        **{name: round(value, 3) for name, value in speed.items()},
        ratio=round(speed["together"] / speed["one_by_one"], 2),
        realtime_streams=held,
        first_sound_p50_ms=round(first_ms, 1),
        machine=machine.describe(),
    )


@torch.inference_mode()
def whole_windows(model: Any, count: int) -> None:
    """Windows of seven frames by the package's own code."""
    for _ in range(count):
        model.decode([torch.randint(0, 4096, (1, 7 * each)) for each in (1, 2, 4)])


async def realtime(codec: SnacCodec, most: int, frames: int) -> tuple[int, float]:
    """How many streams hold at their own pace, up to `most`, and their wait for the first sound."""
    held, first_ms = 0, 0.0
    for count in range(1, most + 1):
        starts = [n * FRAME_S / count for n in range(count)]
        seen = await asyncio.gather(*(paced(codec, frames, wait) for wait in starts))
        if not all(holds for holds, _ in seen):
            break
        held, first_ms = count, float(np.median([ms for _, ms in seen]))
    return held, first_ms


async def paced(codec: SnacCodec, frames: int, wait_s: float) -> tuple[bool, float]:
    """One stream whose frames come as fast as they are heard: whether its sound never broke off,
    and the ms from its first frame to its first sound."""
    await asyncio.sleep(wait_s)
    began, out = time.perf_counter(), list[float]()
    async for _ in sounds(codec, frames, 0, FRAME_S):
        out.append(time.perf_counter() - began)
    late = max(at - out[0] - n * FRAME_S for n, at in enumerate(out))
    return late < FRAME_S, out[0] * 1000


async def speak(codec: SnacCodec, frames: int, seed: int) -> None:
    """One stream, its codes there at once."""
    async for _ in sounds(codec, frames, seed, 0):
        pass


async def sounds(codec: SnacCodec, frames: int, seed: int, pace_s: float) -> AsyncIterator[Frame]:
    """A stream's sound, a frame of codes each `pace_s`."""
    codes = np.random.default_rng(seed).integers(0, 4096, (frames, 7), dtype=np.int32)

    async def stream() -> AsyncIterator[Frame]:
        began = time.perf_counter()
        for n, row in enumerate(codes):
            await asyncio.sleep(max(0.0, began + n * pace_s - time.perf_counter()))
            yield AudioTokens(row)

    async for frame in codec.run(stream(), Context()):
        if isinstance(frame, Audio):
            yield frame


def render(report: Report) -> str:
    """The report as a table."""
    return "\n".join(f"{name:20} {value}" for name, value in asdict(report).items())
