"""A remote chat server as told: a transport that answers, or a socket in a mood of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from motet.components.base import Setup
from motet.components.frames import Message, Prompt
from motet.components.llm.remote import RemoteLlm

HELLO = Prompt((Message("user", "Hello"),))
Handler = Callable[[httpx.Request], httpx.Response]


def sse(*texts: str, end: str = "data: [DONE]\n\n") -> bytes:
    events = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


@asynccontextmanager
async def answering(handler: Handler, **options: Any) -> AsyncIterator[RemoteLlm]:
    """A component whose server is `handler`."""
    setup = Setup("llm", model="m", options={"base_url": "http://llm.test/v1", **options})
    llm = RemoteLlm(setup, transport=httpx.MockTransport(handler))
    await llm.load()
    try:
        yield llm
    finally:
        await llm.close()


@asynccontextmanager
async def served(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any], **options: Any
) -> AsyncIterator[RemoteLlm]:
    """A component whose server is a socket; `talk` gets each connection after its request."""
    tasks: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    llm = RemoteLlm(
        Setup("llm", model="m", options={"base_url": f"http://127.0.0.1:{port}/v1", **options})
    )
    await llm.load()
    try:
        yield llm
    finally:
        await llm.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
