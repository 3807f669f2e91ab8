"""`motet bench embed`: texts per second of many single requests, beside sentence-transformers."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...components.errors import MissingRequirement
from ...components.frames import Embedding, TextInput
from ...components.models import bundled_path
from ...pipelines import Pipeline, load
from . import machine

WORDS = ("time", "people", "way", "water", "words", "long", "little", "very", "after", "name")


@dataclass(frozen=True, slots=True)
class Plan:
    """How many texts of about `tokens` tokens, and how many requests at once."""

    texts: int = 192
    tokens: int = 256
    concurrency: int = 64
    file: str = "embed-throughput"


@dataclass(frozen=True, slots=True)
class Report:
    """Texts per second of both, and what one request alone takes."""

    texts: int
    concurrency: int
    file: str
    ours_per_s: float
    peer_per_s: float
    ratio: float
    single_p50_ms: float
    bare_p50_ms: float
    cosine: float
    machine: str


def sentences(count: int, tokens: int) -> list[str]:
    """Texts of common words, one token each; two tokens are the model's own."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, tokens - 2)) for _ in range(count)]


def run(plan: Plan) -> Report:
    """Measure one after the other, on the same texts.

    Raises:
        MissingRequirement: sentence-transformers isn't installed.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise MissingRequirement(
            "the peer isn't installed: pip install sentence-transformers", where="bench embed"
        )
    texts = sentences(plan.texts, plan.tokens)
    kind: Any = importlib.import_module("sentence_transformers").SentenceTransformer
    peer: Any = kind(str(bundled_path("all-minilm-l6-v2")))
    peer.max_seq_length = plan.tokens
    theirs = peer.encode(texts[:32], batch_size=32)
    started = time.perf_counter()
    peer.encode(texts, batch_size=32)
    peer_per_s = plan.texts / (time.perf_counter() - started)
    bare = median_ms(lambda: peer.encode(texts[0]))
    ours_per_s, single, vectors = asyncio.run(measure(plan, texts))
    cosine = float(min((a * b).sum() for a, b in zip(vectors, theirs, strict=False)))
    return Report(
        texts=plan.texts,
        concurrency=plan.concurrency,
        file=plan.file,
        ours_per_s=round(ours_per_s, 1),
        peer_per_s=round(peer_per_s, 1),
        ratio=round(ours_per_s / peer_per_s, 2),
        single_p50_ms=round(single, 2),
        bare_p50_ms=round(bare, 2),
        cosine=round(cosine, 5),
        machine=machine.describe(),
    )


def median_ms(call: Any, repeats: int = 15) -> float:
    """Median time of a call."""
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def measure(plan: Plan, texts: list[str]) -> tuple[float, float, list[Any]]:
    """Our texts per second, the median of a single request, and the vectors."""
    async with Pipeline(load(plan.file)) as pipeline:
        room = asyncio.Semaphore(plan.concurrency)

        async def one(text: str) -> Any:
            async with room:
                async for frame in pipeline.ask(TextInput(text)):
                    if isinstance(frame, Embedding):
                        return frame.vector

        await one(texts[0])
        started = time.perf_counter()
        vectors = await asyncio.gather(*(one(text) for text in texts))
        rate = len(texts) / (time.perf_counter() - started)
        times: list[float] = []
        for _ in range(15):
            before = time.perf_counter()
            await one(texts[0])
            times.append((time.perf_counter() - before) * 1000)
        return rate, statistics.median(times), list(vectors)


def render(report: Report, *, as_json: bool) -> str:
    """The report as one JSON line, or as a table."""
    values = asdict(report)
    if as_json:
        return json.dumps(values)
    return "\n".join(f"{name:16} {value}" for name, value in values.items())
