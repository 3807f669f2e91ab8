"""Nothing is left of sessions, however they end: no task, socket, file or thread, flat memory."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from caller import calling, speech
from serving import listening, serving
from websockets.asyncio.client import connect

from motet.components import heap
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.bench.clip import make
from motet.streaming.bench.sockets import InProcess
from motet.streaming.bench.voice import Plan, graph_of
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.slow
CYCLES = 500
GONE = 'motet_sessions{door="realtime",pipeline="voice"} 0.0'


def kept_bytes() -> int:
    """What the process holds on to: what only lies free in its heap is given back first."""
    gc.collect()
    heap.trim()
    return psutil.Process().memory_info().rss


def open_files() -> int:
    return len(list(Path(f"/proc/{os.getpid()}/fd").iterdir()))


@pytest.mark.timeout(180)
async def test_500_calls_that_connect_speak_and_hang_up_leave_nothing() -> None:
    clip = make(None, 3.0)
    graph = graph_of(Plan(sessions=20))
    server = Server.make([graph], Settings(max_sessions=20, max_sessions_per_key=20))
    app = create_app(server)

    async def call(number: int) -> None:
        """Speak for a while, a little longer each time, and hang up in mid-word."""
        socket = InProcess(app, "/v1/realtime")
        await socket.receive()
        for event in clip.events[: 5 + number % 120]:
            await socket.send(event)
        await asyncio.sleep(0.001 * (number % 7))
        await socket.close()

    async def calls(first: int, count: int) -> None:
        for start in range(first, first + count, 20):
            await asyncio.gather(*(call(start + n) for n in range(20)))

    async with app.router.lifespan_context(app):
        await calls(0, 100)
        memory = kept_bytes()
        tasks, threads, files = len(asyncio.all_tasks()), threading.active_count(), open_files()
        await calls(100, CYCLES - 100)
        grown = kept_bytes() - memory
        assert len(asyncio.all_tasks()) == tasks
        assert threading.active_count() <= threads
        assert open_files() <= files
        assert grown < 20 * 2**20
        assert not server.pipelines["voice"].sessions
        active = [node.active for node in server.pipelines["voice"].runtime.status()]
        assert active == [0] * len(active)


async def test_a_call_over_the_limit_is_refused_at_once_and_the_others_go_on() -> None:
    with serving(graph_of(Plan(sessions=2)), max_sessions=2) as address:
        async with calling(address) as first, calling(address) as second:
            await first.until("session.created")
            await second.until("session.created")
            async with calling(address) as third:
                refused = await third.until("error")
                assert refused["error"]["code"] == "overloaded"
            assert third.close_code() == 1013
            await first.say(speech("Hello there, how are you?"), pace=4)
            await first.until("response.done")
        # The server may see that they hung up a moment after they have.
        async with httpx.AsyncClient(base_url=address) as http:
            for _ in range(200):
                if GONE in (await http.get("/metrics")).text:
                    break
                await asyncio.sleep(0.05)
        async with calling(address) as fourth:
            await fourth.until("session.created")


async def test_a_new_call_hears_nothing_of_the_one_before() -> None:
    with serving(graph_of(Plan(sessions=2)), max_sessions=2) as address:
        async with calling(address) as first:
            await first.say(speech("Hello there, how are you?"), pace=4)
            await first.until("response.output_audio.delta")
        async with calling(address) as second:
            await second.until("session.created")
            await asyncio.sleep(0.5)
            assert second.kinds() == ["session.created"]


async def test_a_reader_that_stops_reading_costs_little_and_is_let_go() -> None:
    """An answer of half an hour, to a client that takes nothing: the pipeline waits for it, then
    the server gives it up, and nobody else notices."""
    spec = graph_of(Plan(sessions=4)).spec.model_dump()
    spec["nodes"]["llm"]["options"] = {"text": "This is one more sentence. " * 2000}
    spec["conversation"]["max_answer_tokens"] = 100_000
    graph = build(PipelineSpec.model_validate(spec))
    hello = speech("Hello there, how are you?")
    app = create_app(Server.make([graph], Settings(max_sessions=4)))
    with listening(app, ws_ping_interval=5, ws_ping_timeout=5) as address:
        url = f"{address.replace('http', 'ws', 1)}/v1/realtime"
        async with connect(url, max_size=None, max_queue=2, close_timeout=1) as deaf:
            await deaf.recv()
            before = psutil.Process().memory_info().rss
            content = [{"type": "input_text", "text": "hello"}]
            item = {"type": "message", "role": "user", "content": content}
            await deaf.send(json.dumps({"type": "conversation.item.create", "item": item}))
            await deaf.send(json.dumps({"type": "response.create"}))
            await asyncio.sleep(3)
            async with calling(address) as other:
                await other.say(hello, pace=4)
                await other.until("response.output_audio.delta")
            assert psutil.Process().memory_info().rss - before < 64 * 2**20
            async with asyncio.timeout(40):
                while (await status(address))["sessions"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.5)


async def status(address: str) -> dict[str, Any]:
    async with httpx.AsyncClient() as http:
        return (await http.get(f"{address}/v1/status")).json()["pipelines"][0]
