"""A session that is over is freed at once, and doesn't wait for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator

import pytest
from serving import listening
from websockets.asyncio.client import connect

from motet.pipelines.session import Session
from motet.streaming.app import create_app
from motet.streaming.bench.voice import Plan, graph_of
from motet.streaming.server import Server
from motet.streaming.settings import Settings


@pytest.fixture
def collector() -> Iterator[None]:
    """Off: it comes seldom, since each time it stops everything for a blink."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def call(address: str) -> None:
    """Speak for a moment, and hang up in the middle of the answer."""
    async with connect(f"{address.replace('http', 'ws')}/v1/realtime?model=voice") as socket:
        await socket.recv()
        sound = {"type": "input_audio_buffer.append", "audio": "AAAA" * 640}
        await socket.send(json.dumps(sound))
        await socket.send(json.dumps({"type": "response.create"}))
        while json.loads(await socket.recv())["type"] != "response.output_audio.delta":
            pass


def sessions() -> int:
    return sum(issubclass(type(one), Session) for one in gc.get_objects())


async def test_calls_that_were_hung_up_leave_no_session(collector: None) -> None:
    with listening(create_app(Server.make([graph_of(Plan(sessions=4))], Settings()))) as address:
        for _ in range(3):
            await call(address)
        async with asyncio.timeout(10):
            while sessions():  # noqa: ASYNC110 - the server's thread
                await asyncio.sleep(0.02)
