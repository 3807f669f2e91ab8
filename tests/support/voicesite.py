"""A voice pipeline without models, its server, and a client that is turned away from it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from voicespec import voice_spec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.server import Server
from motet.streaming.settings import Settings

Event = dict[str, Any]
SECRET = "a secret of tests, long enough to be one"


def voice(**llm: Any) -> dict[str, Any]:
    """A voice pipeline without models: the client says where turns end."""
    return voice_spec("fake", llm={"use": "fakes:Answer", "options": llm})


def make(pipeline: dict[str, Any] | None = None, **settings: Any) -> Server:
    """A server of it, not yet loaded."""
    graph = build(PipelineSpec.model_validate(pipeline or voice()))
    return Server.make([graph], Settings(**{"ephemeral_secret": (SECRET,), **settings}))


async def closing(url: str, **options: Any) -> tuple[int, str, list[Event]]:
    """Connect to be closed: code, reason, and what came before."""
    events: list[Event] = []
    async with connect(url, **options) as socket:
        with contextlib.suppress(ConnectionClosed):
            while True:
                events.append(json.loads(await socket.recv()))
    return socket.close_code or 0, socket.close_reason or "", events
