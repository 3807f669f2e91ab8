"""The queue on Procrastinate: jobs begin at once, by priority, and outlive whoever ran them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.worker import Worker
from psycopg import OperationalError
from psycopg_pool import PoolTimeout

from .database import Connection, Database
from .ending import expired
from .stopping import end, end_gently
from .store import Job as Ended
from .work import Again, Work

log = logging.getLogger("motet.jobs")

TASK = "motet.run"
QUEUE = "motet"
HEARTBEAT_S = 2.0
DEAD_AFTER_S = 10.0
_SWEEP_S = 3.0
_BUSY_S = 1.0
_FETCHERS = 4
Forget = Callable[[Ended], None]
_LOST = (OperationalError, ConnectorException, PoolTimeout, OSError)


class Queue:
    """Puts jobs into the queue, and in `serve` takes them out until it is cancelled."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._workers: set[Worker] = set()
        self._at_work: set[str] = set()
        self._idle: set[int] = set()

    @property
    def _app(self) -> App:
        if self._database.queue is None:
            raise RuntimeError("the database isn't open")
        return self._database.queue

    async def put(
        self, connection: Connection | None, ids: Sequence[str], priority: int, wait_s: float = 0.0
    ) -> None:
        """Queue jobs, in the caller's transaction where it has one."""
        at = datetime.now(UTC) + timedelta(seconds=wait_s) if wait_s else None
        waiting = [
            Job(
                id=None,
                queue=QUEUE,
                task_name=TASK,
                priority=priority,
                lock=job_id,
                queueing_lock=None,
                task_kwargs={"job": job_id},
                scheduled_at=at,
            )
            for job_id in ids
        ]
        await self._app.job_manager.batch_defer_jobs_async(waiting, connection=connection)

    async def abort(self, job_id: str) -> None:
        """Have whoever runs the job stop now; a queued one never begins."""
        jobs = await self._app.job_manager.list_jobs_async(task=TASK, lock=job_id)
        for job in jobs:
            if job.id is not None and job.status in ("todo", "doing"):
                await self._app.job_manager.cancel_job_by_id_async(job.id, abort=True)

    async def serve(self, work: Work, forget: Forget, *, concurrency: int) -> None:
        """Run jobs, take over those of dead workers, remove expired ones and, by `forget`, their
        files; through failures of the database too, which is brought back if it is our own."""
        self._register(work)
        logging.getLogger("procrastinate").setLevel(logging.WARNING)  # it tells of every job
        # One worker takes jobs one after the other, each with a commit; several share those.
        count = min(_FETCHERS, concurrency)
        shares = [concurrency // count + (place < concurrency % count) for place in range(count)]
        workers = [
            asyncio.create_task(self._worker(share), name=f"jobs worker {place}")
            for place, share in enumerate(shares)
        ]
        sweep = asyncio.create_task(self._sweep(forget), name="jobs sweep")
        try:
            done, _ = await asyncio.wait({*workers, sweep}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end_gently(workers)
            await end([sweep])

    def _register(self, work: Work) -> None:
        if TASK in cast("dict[str, Any]", self._app.tasks):  # pyright: ignore[reportUnknownMemberType]
            return

        async def run(job: str) -> None:
            self._at_work.add(job)
            try:
                if not await work.run(job):
                    await self._later(job, _BUSY_S)
            except Again as again:
                await self._later(job, again.wait_s)
            finally:
                self._at_work.discard(job)

        self._app.task(name=TASK, queue=QUEUE)(run)

    async def _later(self, job_id: str, wait_s: float) -> None:
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT priority FROM motet_jobs WHERE id = %s", (job_id,)
            )
            row = await cursor.fetchone()
            if row is not None:
                await self.put(connection, [job_id], row["priority"], wait_s)

    async def _worker(self, concurrency: int) -> None:
        while True:
            worker = Worker(
                self._app,
                queues=[QUEUE],
                name=f"motet-{secrets.token_hex(4)}",
                concurrency=concurrency,
                install_signal_handlers=False,
                fetch_job_polling_interval=2.0,
                abort_job_polling_interval=2.0,
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=DEAD_AFTER_S,
                shutdown_graceful_timeout=0.5,
                delete_jobs="always",
            )
            running = asyncio.create_task(worker.run(), name="jobs worker run")
            self._workers.add(worker)
            try:
                await asyncio.shield(running)
            except _LOST as error:
                log.warning("the worker lost its database (%s)", type(error).__name__)
            finally:
                self._workers.discard(worker)
                await _stopped(worker, running)
            await asyncio.sleep(0.5)
            await self._database.heal()

    async def _sweep(self, forget: Forget) -> None:
        while True:
            try:
                await self.take_over()
                await self._let_go()
                await self._requeue_lost()
                for job in await expired(self._database):
                    await asyncio.to_thread(forget, job)
            except _LOST as error:
                log.warning("the sweep lost its database (%s)", type(error).__name__)
                await self._database.heal()
            await asyncio.sleep(_SWEEP_S)

    async def take_over(self) -> int:
        """Put jobs of workers that don't beat any more back into the queue; how many."""
        manager = self._app.job_manager
        stalled = list(await manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER_S))
        for job in stalled:
            await manager.retry_job(job)
            log.info("job %s is taken over", job.lock)
        return len(stalled)

    async def _let_go(self) -> None:
        """Take out of the queue what is marked as run by workers of this process, and isn't, at
        two looks: the database failed just as it was fetched or finished."""
        workers = [one.worker_id for one in self._workers if one.worker_id is not None]
        rows = await self._database.execute(
            "SELECT id, lock FROM procrastinate_jobs WHERE status = 'doing'"
            " AND worker_id = ANY(%s)",
            (workers,),
        )
        idle = {row["id"] for row in rows if row["lock"] not in self._at_work}
        for queued in idle & self._idle:
            await self._app.job_manager.finish_job_by_id_async(queued, Status.ABORTED, True)
        self._idle = idle - self._idle

    async def _requeue_lost(self) -> None:
        """Queue again what is meant to run and isn't in the queue, whatever went wrong."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT id, priority FROM motet_jobs m WHERE state IN ('queued', 'running')"
                " AND created_at < now() - interval '10 seconds' AND NOT EXISTS"
                " (SELECT 1 FROM procrastinate_jobs p WHERE p.lock = m.id"
                " AND p.status IN ('todo', 'doing')) LIMIT 100"
            )
            rows: list[dict[str, Any]] = await cursor.fetchall()
            for row in rows:
                await self.put(connection, [row["id"]], row["priority"])


async def _stopped(worker: Worker, running: asyncio.Task[None]) -> None:
    """Ask a worker to stop until it has: it may still be starting, and cancelling it then is lost
    in its database driver (`asyncio.wait_for` before Python 3.12)."""
    while not running.done():
        worker.stop()
        await asyncio.wait({running}, timeout=0.2)
    if not running.cancelled() and isinstance(error := running.exception(), Exception):
        log.debug("the worker ended with %r", error)
