"""What tests of jobs share: pipelines of one fake component, uploads, waiting for a state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from motet.pipelines import Graph, build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings


@asynccontextmanager
async def client_of(
    url: str | None, folder: Path, key: str | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that runs "slow" and "nothing", on that PostgreSQL."""
    step_s = options.pop("step_s", 0.1)
    settings = Settings(data_dir=folder, database_url=url, **options)
    graphs = [graph("slow", "Slow", step_s=step_s), graph("nothing", "Nothing")]
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with http_of(graphs, settings, headers=headers) as http:
        yield http


@asynccontextmanager
async def http_of(
    graphs: list[Any], settings: Settings, *, headers: dict[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server of these graphs, which runs while it is open."""
    app = create_app(Server.make(graphs, settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=60
        ) as http:
            yield http


async def ended(http: httpx.AsyncClient, job_id: str, within_s: float = 30) -> dict[str, Any]:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        job = (await http.get(f"/v1/jobs/{job_id}")).json()
        if job["state"] in ("completed", "failed", "cancelled"):
            return job
        await asyncio.sleep(0.05)
    pytest.fail(f"the job is still {job['state']}")


def graph(name: str, use: str, **options: Any) -> Graph:
    node = {"use": f"jobfakes:{use}", "options": options}
    spec = {"name": name, "nodes": {"work": node}, "edges": ["input -> work -> output"]}
    return build(PipelineSpec.model_validate(spec))


def upload(*texts: str, request: str = '{"pipeline": "slow"}') -> dict[str, Any]:
    files = [("file", (f"{n}.txt", text.encode())) for n, text in enumerate(texts)]
    return {"files": files, "data": {"request": request}}


async def running(http: httpx.AsyncClient, job_id: str, done: float = 1) -> dict[str, Any]:
    for _ in range(400):
        job = (await http.get(f"/v1/jobs/{job_id}?partial=true")).json()
        if job["state"] == "running" and job["progress"]["done"] >= done:
            return job
        await asyncio.sleep(0.05)
    pytest.fail(f"the job is still {job['state']}")
