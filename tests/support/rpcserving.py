"""The gRPC door on fakes, in this process, and what is said to it."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from motet.components.frames import (
    Message,
    Prompt,
)
from motet.pipelines import build
from motet.pipelines.graph import Graph
from motet.pipelines.spec import PipelineSpec
from motet.streaming.client import AsyncClient
from motet.streaming.rpc.server import serving
from motet.streaming.server import Server
from motet.streaming.settings import Settings


def graph(name: str, uses: dict[str, str], *edges: str, **extra: Any) -> Graph:
    nodes = {node: {"use": f"rpcfakes:{use}"} for node, use in uses.items()}
    spec = {"name": name, "nodes": nodes, "edges": list(edges), **extra}
    return build(PipelineSpec.model_validate(spec))


def graphs() -> list[Graph]:
    return [
        graph("hear", {"ears": "Ears"}, "input -> ears -> output"),
        graph("say", {"mouth": "Mouth"}, "input -> mouth -> output"),
        graph("think", {"brain": "Brain"}, "input -> brain -> output"),
        graph("embed", {"space": "Space"}, "input -> space -> output"),
        graph("paint", {"brush": "Brush"}, "input -> brush -> output"),
        graph("talk", {"brain": "Brain", "mouth": "Mouth"}, "input -> brain -> mouth -> output"),
    ]


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[tuple[str, Server]]:
    server = Server.make(graphs(), Settings(host="localhost", shutdown_grace_s=0.2, **settings))
    for pipeline in server.pipelines.values():
        await pipeline.__aenter__()
    try:
        async with serving(server, port=0) as port:
            yield f"localhost:{port}", server
    finally:
        for pipeline in server.pipelines.values():
            await pipeline.__aexit__(None, None, None)


@asynccontextmanager
async def client(**settings: Any) -> AsyncIterator[AsyncClient]:
    async with served(**settings) as (address, _), AsyncClient(address) as made:
        yield made


def wav(samples: np.ndarray, rate_hz: int, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, rate_hz, 0, "NONE", ""))
        out.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


async def stream(*parts: Any, hold: asyncio.Event | None = None) -> AsyncIterator[Any]:
    for part in parts:
        yield part
    if hold is not None:
        await hold.wait()


def ask(text: str) -> Prompt:
    return Prompt((Message("user", text),), spoken=False)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's counter
            await asyncio.sleep(0.005)


TONE = np.full(24_000, 700, np.int16)
