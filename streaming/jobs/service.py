"""Everything that jobs need in one process: database, store, queue, files, outbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

from ...components.errors import BadInput, nearest
from ...pipelines.pipeline import Pipeline
from ..operate.upkeep import Run
from ..server import Server
from ..settings import Settings
from .database import Database
from .deliveries import Deliveries
from .ending import cancel, delete
from .endpoints import Endpoints
from .inputs import Inputs
from .outbox import Outbox
from .queue import Queue
from .requests import CancelRequest
from .results import Results
from .stopping import end, end_gently
from .store import Job, JobStore
from .work import Work

_AT_ONCE = 1000


class Jobs:
    """Made from a server's settings; `serving` opens the database and runs jobs meanwhile."""

    def __init__(self, server: Server) -> None:
        settings = server.settings
        self._server = server
        self.database = Database(settings.database_url, settings.data_dir / "postgres")
        self.store = JobStore(self.database)
        self.queue = Queue(self.database)
        self.endpoints = Endpoints(self.database)
        self.deliveries = Deliveries(self.database)
        self.outbox = Outbox(
            self.database,
            server.metrics.deliveries,
            allow_loopback=settings.allow_loopback_urls,
        )
        self.inputs = inputs_of(settings)
        self.results = Results(settings.data_dir / "results")
        self._work = Work(self.database, self.store, self.inputs, self.results, self.find)

    def find(self, name: str) -> Pipeline:
        """The pipeline of that very name.

        Raises:
            BadInput: there is none.
        """
        found = self._server.pipelines.get(name)
        if found is None:
            raise BadInput(
                f"no pipeline {name!r}; {nearest(name, list(self._server.pipelines))}",
                param="pipeline",
            )
        return found

    @asynccontextmanager
    async def serving(self, *, concurrency: int = 8) -> AsyncGenerator[Jobs]:
        """Open for the time of the context; `concurrency` 0 takes jobs in, but runs none.

        Leaving stops the jobs at work, which begin again elsewhere or later, keeping their chunks.
        """
        await self.database.open()
        upkeep = self._server.upkeep

        def kept(name: str, run: Run) -> asyncio.Task[NoReturn]:
            return asyncio.create_task(upkeep.keep(name, run, mend=self.database.heal), name=name)

        tasks = [kept("webhooks", self.outbox.serve)]
        if self.database.is_embedded:
            tasks.append(kept("jobs database", self.database.watch))
        serving: list[asyncio.Task[None]] = []
        if concurrency:
            serve = self.queue.serve(self._work, self.forget, upkeep, concurrency=concurrency)
            serving.append(asyncio.create_task(serve, name="jobs"))
        try:
            yield self
        finally:
            await end_gently(serving)
            await end(tasks)
            await self.database.close()

    async def cancel(self, owner: str, wanted: CancelRequest) -> list[str]:
        """Cancel jobs of an owner, stopping them where they run; the ids of those that were.

        Those that are over stay as they are. Many are cancelled by and by.
        """
        ids: list[str] = []
        while found := await cancel(self.database, owner, wanted, _AT_ONCE):
            self.outbox.wake()
            await self._stop(found)
            ids += [job.id for job in found]
            if len(found) < _AT_ONCE:
                break
        return ids

    async def delete(self, job_id: str, owner: str) -> Job | None:
        """Remove a job and everything kept of it, stopping it where it runs. None: no such."""
        job = await delete(self.database, job_id, owner)
        if job is not None:
            await self._stop([job])
        return job

    async def _stop(self, jobs: Sequence[Job]) -> None:
        await self.queue.abort([job.id for job in jobs])
        for job in jobs:
            await asyncio.to_thread(self.forget, job)

    def forget(self, job: Job) -> None:
        """Remove the files of a job: what it got and what it made. Blocks."""
        self.inputs.forget(job.input)
        self.results.forget(job)


def inputs_of(settings: Settings) -> Inputs:
    """Where files come from under these settings."""
    return Inputs(
        Path(settings.data_dir) / "jobs",
        input_dir=settings.input_dir,
        limit_bytes=settings.max_upload_bytes,
        allow_loopback=settings.allow_loopback_urls,
    )
