"""What tests of webhooks share: a receiver, a server that calls it, waiting for deliveries."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.access.keyfile import StoredKey, digest, write_keys
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

Answer = Callable[[int], Response]


class Receiver:
    """A receiver of webhooks: keeps what came by id, and answers the nth attempt by `answer`."""

    def __init__(self) -> None:
        self.got: dict[str, list[tuple[dict[str, str], str]]] = defaultdict(list)
        self.answer: Answer = lambda attempt: Response()
        self.delay_s = 0.0
        self.app = FastAPI()
        self.app.post("/hook")(self.hook)

    async def hook(self, request: Request) -> Response:
        headers = dict(request.headers)
        body = (await request.body()).decode()
        attempts = self.got[headers["webhook-id"]]
        attempts.append((headers, body))
        until_s = time.monotonic() + self.delay_s
        while self.delay_s and time.monotonic() < until_s:  # noqa: ASYNC110 - a test may end it
            await asyncio.sleep(0.02)
        return self.answer(len(attempts))


@asynccontextmanager
async def server(
    url: str, folder: Path, *, loopback: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose jobs do nothing; its key is a new one, with nothing of its own."""
    keys = folder / "keys.json"
    write_keys(keys, [StoredKey(secrets.token_hex(8), digest("mk-x"))])
    node = {"use": "jobfakes:Nothing"}
    spec = {"name": "nothing", "nodes": {"work": node}, "edges": ["input -> work -> output"]}
    settings = Settings(
        data_dir=folder, database_url=url, allow_loopback_urls=loopback, keys_file=keys
    )
    app = create_app(Server.make([build(PipelineSpec.model_validate(spec))], settings))
    headers = {"authorization": "Bearer mk-x"}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=30
        ) as http:
            yield http


async def job(http, **more: Any) -> str:
    body = {"pipeline": "nothing", "input": {"data": 1}, **more}
    return (await http.post("/v1/jobs", json=body)).json()["id"]


async def deliveries(http, wanted: int, state: str) -> list[dict[str, Any]]:
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        found = (await http.get(f"/v1/webhooks/deliveries?state={state}")).json()["data"]
        if len(found) >= wanted:
            return found
        await asyncio.sleep(0.05)
    everything = (await http.get("/v1/webhooks/deliveries")).json()["data"]
    pytest.fail(f"{wanted} {state} deliveries wanted, got {everything}")


async def attempts(http: httpx.AsyncClient, delivery: str, wanted: int) -> list[dict[str, Any]]:
    """The log of a delivery, once it has so many attempts."""
    until_s = time.monotonic() + 30
    found: list[dict[str, Any]] = []
    while time.monotonic() < until_s:
        found = (await http.get(f"/v1/webhooks/deliveries/{delivery}")).json()["attempts"]
        if len(found) >= wanted:
            return found
        await asyncio.sleep(0.05)
    pytest.fail(f"{wanted} attempts wanted, got {found}")
