"""`motet bench vision`: what the encoder's cache saves, on a vision-language model of your own."""

from __future__ import annotations

import asyncio
import io
import json
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

import numpy as np
from PIL import Image as Picture

from ...components.base import Context, Resources, Setup
from ...components.frames import Embedding, Frame, ImagePart, Message, Prompt
from ...components.vision.encoder import VisionEncoder
from . import machine


@dataclass(frozen=True, slots=True)
class Plan:
    """Which model, how many different pictures of which size, how many askers at once."""

    model: str
    pictures: int = 8
    side: int = 768
    concurrency: int = 50
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Report:
    """Milliseconds per picture, encoded and from the cache; `encoded` of `concurrency` equal."""

    model: str
    pictures: int
    side: int
    tokens: int
    encode_p50_ms: float
    hit_p50_ms: float
    ratio: float
    concurrency: int
    encoded: int
    machine: str


def pictures(plan: Plan) -> list[bytes]:
    """Pictures of noise over a gradient, which no codec makes small or quick."""
    rng = np.random.default_rng(0)
    slope = np.linspace(0, 127, plan.side)[None, :, None]
    found: list[bytes] = []
    for _ in range(plan.pictures + 1):
        pixels = slope + rng.integers(0, 128, (plan.side, plan.side, 3))
        file = io.BytesIO()
        Picture.fromarray(pixels.astype(np.uint8)).save(file, "JPEG", quality=90)
        found.append(file.getvalue())
    return found


async def measure(plan: Plan) -> Report:
    """Each picture twice, one after the other, then one new picture for all askers at once.

    Raises:
        MissingRequirement: the model isn't there.
    """
    setup = Setup("encoder", plan.model, {}, Resources(plan.threads), plan.concurrency)
    encoder = VisionEncoder(setup)
    await encoder.load()
    try:
        *each, last = pictures(plan)
        await look(encoder, pictures(Plan(plan.model, 0, plan.side // 2))[0])
        cold = [await look(encoder, one) for one in each]
        warm = [await look(encoder, one) for one in each]
        before = encoder.cache.misses
        await asyncio.gather(*(look(encoder, last) for _ in range(plan.concurrency)))
        encoded = encoder.cache.misses - before
    finally:
        await encoder.close()
    encode_ms = statistics.median(took for took, _ in cold)
    hit_ms = statistics.median(took for took, _ in warm)
    return Report(
        plan.model,
        plan.pictures,
        plan.side,
        cold[0][1],
        round(encode_ms, 2),
        round(hit_ms, 3),
        round(encode_ms / hit_ms, 1),
        plan.concurrency,
        encoded,
        machine.describe(),
    )


async def look(encoder: VisionEncoder, data: bytes) -> tuple[float, int]:
    """Milliseconds for one picture, and its tokens."""
    prompt = Prompt((Message("user", "", (ImagePart(data, "high"),)),))

    async def source() -> AsyncIterator[Frame]:
        yield prompt

    began_s, tokens = time.perf_counter(), 0
    async for frame in encoder.run(source(), Context()):
        if isinstance(frame, Embedding):
            tokens = frame.tokens
    return (time.perf_counter() - began_s) * 1000, tokens


def run(plan: Plan) -> Report:
    """Measure from a command line."""
    return asyncio.run(measure(plan))


def render(report: Report, *, as_json: bool) -> str:
    """The report for people, or as one JSON line."""
    if as_json:
        return json.dumps(asdict(report))
    return (
        f"{report.pictures} pictures of {report.side} x {report.side}, {report.tokens} tokens\n"
        f"encoded    {report.encode_p50_ms} ms\n"
        f"from cache {report.hit_p50_ms} ms, {report.ratio} times faster\n"
        f"{report.concurrency} askers for one new picture: encoded {report.encoded} time(s)\n"
        f"{report.machine}"
    )
