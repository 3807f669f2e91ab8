"""Servers for tests, each in its own thread: the application, and a scripted language model."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from motet.pipelines import Graph, load
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

VOICE = Path(__file__).parents[2] / "configs" / "voice.yaml"


@contextmanager
def listening(app: FastAPI, **options: Any) -> Iterator[str]:
    """Serve `app` on a free port; its address. `options` are uvicorn's."""
    options |= {"port": 0, "log_level": "error", "ws": "websockets-sansio", "lifespan": "on"}
    config = uvicorn.Config(app, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline_s = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the server didn't start"
        assert time.monotonic() < deadline_s, "the server took more than a minute to start"
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://localhost:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def serving(*graphs: Graph, **settings: Any) -> Iterator[str]:
    """A real server of these pipelines; its address."""
    with listening(create_app(Server.make(graphs, Settings(**settings)))) as address:
        yield address


class ScriptedModel:
    """A Chat-Completions server that always answers `reply`, and keeps what it was asked."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.asked: list[list[dict[str, Any]]] = []
        self.app = FastAPI()
        self.app.post("/v1/chat/completions")(self.complete)

    async def complete(self, request: Request) -> StreamingResponse:
        """The reply, word by word."""
        self.asked.append((await request.json())["messages"])
        return StreamingResponse(self.stream(), media_type="text/event-stream")

    async def stream(self) -> AsyncIterator[str]:
        """Server-sent events of the Chat-Completions protocol."""
        for word in self.reply.split(" "):
            delta = {"index": 0, "delta": {"content": f"{word} "}, "finish_reason": None}
            yield f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [delta]})}\n\n"
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        yield f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [last]})}\n\n"
        yield "data: [DONE]\n\n"


def scripted_voice(address: str, folder: Path) -> Graph:
    """The voice pipeline with its language model at `address`, everything else as it is."""
    spec = yaml.safe_load(VOICE.read_text())
    options = {"base_url": f"{address}/v1"}
    spec["nodes"]["llm"] = {"use": "llm/remote", "model": "scripted", "options": options}
    file = folder / "voice.yaml"
    file.write_text(yaml.safe_dump(spec))
    return load(file)
