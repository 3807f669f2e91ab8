"""Streams of pictures on a component that can be told to stop short, and what they leave behind."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.responses import Response, StreamingResponse

from motet.components.base import Component, Context
from motet.components.frames import Frame, Generate, Image
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.images import routes as images
from motet.streaming.server import Server
from motet.streaming.settings import Settings


class Lazy(Component):
    """Makes one picture, however many are asked for."""

    accepts = (Generate,)
    emits = (Image,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for _ in frames:
            yield Image(np.zeros((8, 8, 3), np.uint8))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    spec: dict[str, Any] = {
        "name": "images",
        "nodes": {"a": {"use": f"{__name__}:Lazy"}},
        "edges": ["input -> a -> output"],
    }
    graph = build(PipelineSpec.model_validate(spec))
    server = Server.make([graph], Settings(data_dir=tmp_path))
    transport = httpx.ASGITransport(create_app(server))
    async with (
        server.pipelines["images"],
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
    ):
        yield http


async def kinds(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    body = {"prompt": "a cat", "n": count, "stream": True}
    answer = await client.post("/v1/images/generations", json=body)
    return [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]


async def test_fewer_pictures_than_asked_for_are_a_fault(client: httpx.AsyncClient) -> None:
    assert [one["type"] for one in await kinds(client, 1)] == ["image_generation.completed"]
    made, fault = await kinds(client, 3)
    assert (made["type"], fault["type"]) == ("image_generation.completed", "error")
    assert "it made 1 of 3 pictures" in fault["error"]["message"]
    whole = await client.post("/v1/images/generations", json={"prompt": "a cat", "n": 3})
    assert whole.status_code == 500
    assert "it made 1 of 3 pictures" in whole.json()["error"]["message"]


async def test_a_stream_that_is_left_is_closed_with_what_it_tells(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator that is left to the collector ends at any time, in any order."""
    told: list[AsyncGenerator[str]] = []
    real = images.events

    def remembered(*given: Any) -> AsyncGenerator[str]:
        told.append(real(*given))
        return told[0]

    async def leave(_: object, *connection: Any) -> None:
        await anext(told[0])
        await Response()(*connection)

    monkeypatch.setattr(images, "events", remembered)
    monkeypatch.setattr(StreamingResponse, "__call__", leave)
    await client.post("/v1/images/generations", json={"prompt": "a", "stream": True})
    assert told[0].ag_frame is None, "it is closed"
