"""A server of the hop that does as it is told, and what tests ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from motet.components.base import Context
from motet.components.errors import BadInput, Overloaded
from motet.components.frames import Frame, TextInput
from motet.pipelines.runtimes.link import LinkSettings
from motet.pipelines.runtimes.mux import Hop, HopServer

CONTEXT = Context("s1", turn=3, trace="00-aa", key="k")


class Service:
    """What a test's server does with a run, and what it has seen."""

    def __init__(self) -> None:
        self.made = self.running = 0
        self.contexts: list[Context] = []
        self.names: list[str] = []

    async def __call__(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        self.running += 1
        self.contexts.append(context)
        self.names.append(node)
        try:
            async for frame in frames:
                async for answer in self.answer(frame):
                    self.made += 1
                    yield answer
        finally:
            self.running -= 1

    async def answer(self, frame: Frame) -> AsyncIterator[Frame]:
        match frame:
            case TextInput(text="flood"):
                for index in range(10_000):
                    yield TextInput("x", index)
            case TextInput(text="sleep"):
                await asyncio.sleep(3600)
            case TextInput(text="break"):
                yield frame
                raise RuntimeError("told to break")
            case TextInput(text="refuse"):
                raise Overloaded("full", where="here", retry_after_s=2.5)
            case TextInput(text="bad"):
                raise BadInput("wrong", where="here", param="text")
            case TextInput(text="stop"):
                raise asyncio.CancelledError
            case _:
                yield frame


async def source(*frames: Frame, hold: bool = False) -> AsyncIterator[Frame]:
    for frame in frames:
        yield frame
    if hold:
        await asyncio.sleep(3600)


async def collect(frames: AsyncIterator[Frame]) -> list[Frame]:
    return [frame async for frame in frames]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's counter
            await asyncio.sleep(0.005)


@asynccontextmanager
async def connected(
    tmp_path: Path, settings: LinkSettings | None = None, *, tcp: bool = False
) -> AsyncIterator[tuple[Hop, Service, HopServer]]:
    service = Service()
    server = HopServer(service, node="echo", settings=settings)
    address = await server.start("127.0.0.1:0" if tcp else f"unix:{tmp_path}/hop")
    try:
        async with Hop(address, settings=settings) as hop:
            yield hop, service, server
    finally:
        await server.stop()
