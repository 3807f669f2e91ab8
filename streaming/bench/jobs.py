"""Jobs on a server of their own: how many a second from POST to their end, how soon one stops."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from ...components.errors import ComponentFailed
from .machine import describe, use
from .process import serving

_ENGINES = "motet.streaming.bench.jobengines"
_KIND = {"nothing": "Nothing", "lasting": "Lasting"}
_POLL_S = 0.05
_LOOK_S = 0.002
_INTO_S = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """`jobs` that do nothing, `per_post` inputs in each request, from `clients` at once; then
    `cancels` jobs stopped in the middle, of `audio` where that is given. `database` is a
    PostgreSQL's URL, None for the embedded one."""

    jobs: int = 2000
    per_post: int = 1
    clients: int = 16
    cancels: int = 20
    audio: Path | None = None
    database: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """Jobs a second until all were taken in, and until all had ended; CPU milliseconds of each job
    in the server and in PostgreSQL (None: it isn't ours); milliseconds from a cancel until its work
    had stopped, at the median and at the worst."""

    accepted_per_s: float
    done_per_s: float
    server_cpu_ms: float
    database_cpu_ms: float | None
    cancel_p50_ms: float | None
    cancel_max_ms: float | None


def run(plan: Plan) -> Result:
    """Measure.

    Raises:
        ComponentFailed: the server didn't start, or a job failed.
    """
    return asyncio.run(_run(plan))


async def _run(plan: Plan) -> Result:
    async with _server(plan) as (http, server, database):
        await _jobs(http, 50, 50, 1)
        before = [use(pid).cpu_s for pid in (server, database) if pid is not None]
        accepted_s, done_s = await _jobs(http, plan.jobs, plan.per_post, plan.clients)
        after = [use(pid).cpu_s for pid in (server, database) if pid is not None]
        data = await asyncio.to_thread(plan.audio.read_bytes) if plan.audio else None
        times = sorted([await _cancel(http, data) for _ in range(plan.cancels)])
    cpu_ms = [1000 * (now - then) / plan.jobs for then, now in zip(before, after, strict=True)]
    return Result(
        plan.jobs / accepted_s,
        plan.jobs / done_s,
        cpu_ms[0],
        cpu_ms[1] if len(cpu_ms) > 1 else None,
        statistics.median(times) if times else None,
        times[-1] if times else None,
    )


@asynccontextmanager
async def _server(plan: Plan) -> AsyncGenerator[tuple[httpx.AsyncClient, int, int | None]]:
    """A client of a server, its process id, and that of its PostgreSQL."""
    folder, files = await asyncio.to_thread(_prepared)
    data = folder / "data"
    given = {"MOTET_DATABASE_URL": plan.database} if plan.database else {}
    # The transcriber makes the server keep jobs.
    arguments = (*files, "transcribe", "--data-dir", str(data))
    postmaster: int | None = None
    try:
        async with (
            serving(*arguments, environment={**os.environ, **given}) as (url, server),
            httpx.AsyncClient(base_url=url.replace("ws://", "http://"), timeout=120) as http,
        ):
            if plan.database is None:
                postmaster = await asyncio.to_thread(_postmaster, data)
            yield http, server, postmaster
    finally:
        if postmaster is not None:
            with suppress(ProcessLookupError):
                os.kill(postmaster, signal.SIGINT)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _prepared() -> tuple[Path, list[str]]:
    """A folder of the benchmark's own with its pipelines."""
    folder = Path(tempfile.mkdtemp(prefix="motet-bench-"))
    folder.chmod(0o755)  # PostgreSQL doesn't run as root
    files: list[str] = []
    for name, kind in _KIND.items():
        node = {"use": f"{_ENGINES}:{kind}"}
        spec = {"name": name, "nodes": {"work": node}, "edges": ["input -> work -> output"]}
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(spec))
        files.append(str(file))
    return folder, files


def _postmaster(data: Path) -> int:
    return int((data / "postgres/postmaster.pid").read_text().split()[0])


async def _jobs(
    http: httpx.AsyncClient, count: int, per_post: int, clients: int
) -> tuple[float, float]:
    """Seconds until so many jobs were taken in, and until all of them had ended."""
    posts = iter([min(per_post, count - first) for first in range(0, count, per_post)])
    began_s = time.monotonic()

    async def client() -> None:
        for size in posts:
            body: dict[str, Any] = {"pipeline": "nothing", "inputs": [{"data": 1}] * size}
            (await http.post("/v1/jobs", json=body)).raise_for_status()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    accepted_s = time.monotonic() - began_s
    await _ended(http)
    done_s = time.monotonic() - began_s
    if await _some(http, "failed"):
        raise ComponentFailed("a job failed", where="bench")
    return accepted_s, done_s


async def _ended(http: httpx.AsyncClient) -> None:
    while True:
        if not await _some(http, "queued") and not await _some(http, "running"):
            return
        await asyncio.sleep(_POLL_S)


async def _some(http: httpx.AsyncClient, state: str) -> bool:
    return bool((await http.get(f"/v1/jobs?limit=1&state={state}")).json()["data"])


async def _cancel(http: httpx.AsyncClient, audio: bytes | None) -> float:
    """Milliseconds from a cancel until nothing of the job runs any more."""
    if audio is None:
        made = await http.post("/v1/jobs", json={"pipeline": "lasting", "input": {"text": "x"}})
    else:
        made = await http.post("/v1/jobs", files={"file": ("audio", audio)})
    job = made.raise_for_status().json()["id"]
    await _until(http, at_work=True)
    await asyncio.sleep(_INTO_S if audio else 0.0)
    began_s = time.monotonic()
    (await http.post(f"/v1/jobs/{job}/cancel")).raise_for_status()
    await _until(http, at_work=False)
    return (time.monotonic() - began_s) * 1000


async def _until(http: httpx.AsyncClient, *, at_work: bool) -> None:
    while True:
        status = (await http.get("/v1/status")).json()
        if any(pipeline["sessions"] for pipeline in status["pipelines"]) == at_work:
            return
        await asyncio.sleep(_LOOK_S)


def render(result: Result, plan: Plan, *, as_json: bool) -> str:
    """The result in words, or as one JSON line."""
    if as_json:
        return json.dumps({"machine": describe(), **asdict(result)})
    database = result.database_cpu_ms
    lines = [
        describe(),
        f"{plan.jobs} jobs that do nothing, {plan.per_post} a request, {plan.clients} clients:"
        f" {result.accepted_per_s:.0f} taken in and {result.done_per_s:.0f} done a second;"
        f" {result.server_cpu_ms:.1f} CPU ms each in the server"
        + (f", {database:.1f} in PostgreSQL" if database is not None else ""),
    ]
    if result.cancel_p50_ms is not None:
        what = plan.audio.name if plan.audio else "idle jobs"
        lines.append(
            f"cancel of {what}, until its work has stopped: {result.cancel_p50_ms:.0f} ms"
            f" (median of {plan.cancels}), at most {result.cancel_max_ms:.0f} ms"
        )
    return "\n".join(lines)
