"""Several servers of one pipeline on one Ray cluster: each ends what is its own, and no more."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import rayserver

from motet.pipelines import Pipeline
from motet.pipelines.runtimes.ray.deployment import app_of, job_of


@pytest.mark.parametrize("pipeline", ["voice", "a-job-01.1", "v.1-job"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_the_name_of_an_application_tells_whose_it_is(pipeline: str, version: str) -> None:
    names = {
        app_of(pipeline, "asr", server=server, version=version)
        for server in ("0a.1", "0a.2", "0b.1")
    }
    assert len(names) == 3
    assert sorted(job_of(name) or "" for name in names) == ["0a", "0a", "0b"]
    assert job_of(app_of(pipeline, "asr")) is None, "a service's, which belongs to no server"


class Other:
    """A server in another process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def says(self) -> bytes:
        assert self.process.stdout is not None
        async with asyncio.timeout(120):
            return (await self.process.stdout.readline()).strip()

    async def replica(self) -> int:
        """The process that answers for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        return int(await self.says())


@asynccontextmanager
async def other(address: str) -> AsyncIterator[Other]:
    """Killed at the end, if it lives."""
    pipe = asyncio.subprocess.PIPE
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "rayserver", address),
        stdin=pipe,
        stdout=pipe,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        server = Other(process)
        assert await server.says() == b"ready"
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def this(address: str) -> AsyncIterator[Pipeline]:
    """A server in this process."""
    from motet.pipelines.runtimes.ray.serve import RayRuntime

    made = rayserver.graph()
    async with Pipeline(made, RayRuntime(made, address=address)) as pipeline:
        yield pipeline


@pytest.mark.slow
@pytest.mark.timeout(240, func_only=True)
@pytest.mark.filterwarnings("default")
async def test_servers_live_beside_each_other_and_leave_nothing_when_they_die(
    ray_cluster: Any,
) -> None:
    from motet.pipelines.runtimes.ray.api import running

    async with other(ray_cluster.address) as first:
        home = await first.replica()
        async with this(ray_cluster.address) as pipeline, this(ray_cluster.address) as again:
            assert len(running()) == 3, "the same pipeline, one application for each server"
            pids = {home, await rayserver.replica(pipeline), await rayserver.replica(again)}
            assert len(pids) == 3
        assert len(running()) == 1
        assert await first.replica() == home, "the others have ended what was theirs"
        left = running()
    # It was killed in the middle of a run, and had no time to end anything.
    async with this(ray_cluster.address) as pipeline:
        assert len(running()) == 1
        assert not running() & left
        assert await rayserver.replica(pipeline) != home
    assert running() == set()
