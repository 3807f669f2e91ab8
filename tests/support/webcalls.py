"""Servers whose calls leave nothing behind, for tests over WebRTC."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psutil
import pytest
from caller import quiet
from voicespec import voice_spec
from webcaller import WebCaller

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

MANUAL = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}


def pipeline(**llm: Any) -> dict[str, Any]:
    """A voice that hums, real ears for the turns, no model for the words."""
    answer = {"use": "fakes:Answer", "options": llm}
    return voice_spec("fake", vad="vad/silero", llm=answer, tts="callfakes:Hum")


def make(spec: dict[str, Any] | None = None, **settings: Any) -> Server:
    graph = build(PipelineSpec.model_validate(spec or pipeline()))
    return Server.make([graph], Settings(**settings))


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """The server in this loop; when it is left, nothing of its calls may be."""
    app = create_app(server)
    tasks, sockets = len(asyncio.all_tasks()), udp_sockets()
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield http
        await emptied(server)
    gc.collect()
    # aiortc closes in tasks of its own, which nobody can wait for.
    for _ in range(250):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if len(left) < tasks and udp_sockets() <= sockets:
            break
        await asyncio.sleep(0.02)
    assert len(left) < tasks, left
    assert [t.name for t in threading.enumerate() if t.name.endswith("-decoder")] == []
    assert udp_sockets() <= sockets


def udp_sockets() -> int:
    """How many sockets of calls this process has; others' servers, in threads, have none."""
    return len(psutil.Process().net_connections(kind="udp"))


async def emptied(server: Server) -> None:
    """Wait until no session and no task of a call is left."""
    for _ in range(1000):
        on = [t for t in asyncio.all_tasks() if t.get_name().startswith("rtc_")]
        if not server.open_sessions and not on:
            return
        await asyncio.sleep(0.01)
    pytest.fail("a call is left")


async def ask(caller: WebCaller) -> None:
    """Push to talk: half a second, commit, and a response."""
    await caller.say(quiet(0.5))
    await asyncio.sleep(0.3)
    caller.send("input_audio_buffer.commit")
    caller.send("response.create")
