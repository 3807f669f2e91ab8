"""The queue on Procrastinate: jobs begin at once, by priority, and outlive whoever ran them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, cast

from procrastinate import App
from procrastinate.jobs import Job, Status
from psycopg import OperationalError

from ..operate.upkeep import Run, Upkeep, Watch, said
from .database import Database
from .ending import expired, remove, tidy
from .fetching import DEAD_AFTER_S, QUEUE, Crew, fetch
from .stopping import end, end_gently
from .store import Job as Ended
from .work import Again, Work

log = logging.getLogger("motet.jobs")

TASK = "motet.run"
_SWEEP_S = 3.0
_BUSY_S = 1.0
_FETCHERS = 4
_TIDY_S = 60.0
_EXPIRE = 100
_LOOK_AT = 1000
_LOST = """
WITH live AS MATERIALIZED (
    SELECT id, priority, created_at FROM motet_jobs
    WHERE state IN ('queued', 'running') AND id > %(after)s ORDER BY id LIMIT %(most)s
), lost AS (
    SELECT id, priority FROM live WHERE created_at < now() - interval '2 seconds'
    AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs p
        WHERE p.lock = live.id AND p.status IN ('todo', 'doing'))
), queued AS (
    SELECT procrastinate_defer_jobs_v1(array_agg(ROW(%(queue)s, %(task)s, priority, id, NULL,
        jsonb_build_object('job', id), NULL)::procrastinate_job_to_defer_v1)) AS ids
    FROM lost HAVING count(*) > 0
)
SELECT (SELECT max(id) FROM live) AS last, (SELECT count(*) FROM live) AS looked_at,
    (SELECT coalesce(sum(cardinality(ids)), 0) FROM queued)::integer AS lost
"""
Forget = Callable[[Ended], None]


class Queue:
    """Takes jobs out of the queue in `serve` until cancelled; `store.insert` puts them in."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._crew = Crew()
        self._at_work: set[str] = set()
        self._idle: set[int] = set()
        self._looked_at = ""

    @property
    def _app(self) -> App:
        if self._database.queue is None:
            raise RuntimeError("the database isn't open")
        return self._database.queue

    async def abort(self, ids: Sequence[str]) -> None:
        """Have whoever runs these jobs stop now; queued ones never begin."""
        await self._database.execute(
            "SELECT procrastinate_cancel_job_v1(id, true, true) FROM procrastinate_jobs"
            " WHERE lock = ANY(%s) AND status IN ('todo', 'doing')",
            (list(ids),),
        )

    async def serve(self, work: Work, forget: Forget, upkeep: Upkeep, *, concurrency: int) -> None:
        """Run jobs, take over those of dead workers, remove expired ones and, by `forget`, their
        files; through failures of the database too, which is brought back if it is our own."""
        self._register(work)
        logging.getLogger("procrastinate").setLevel(logging.WARNING)  # it tells of every job
        # It repeats, with tracebacks, what has stopped a worker, when that is known.
        logging.getLogger("procrastinate.utils").setLevel(logging.CRITICAL)
        # One worker takes jobs one after the other, each with a commit; several share those.
        count = min(_FETCHERS, concurrency)
        shares = [concurrency // count + (place < concurrency % count) for place in range(count)]

        def kept(name: str, run: Run) -> asyncio.Task[NoReturn]:
            return asyncio.create_task(upkeep.keep(name, run, mend=self._database.heal), name=name)

        workers = [
            kept(
                f"jobs worker {place + 1}",
                partial(fetch, self._app, place + 1, share, self._crew),
            )
            for place, share in enumerate(shares)
        ]
        sweep = kept("jobs sweep", partial(self._sweep, forget))
        try:
            await asyncio.wait({*workers, sweep})
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
            except OperationalError as error:
                log.warning("job %s is given up here, to run again: %s", job, said(error))
            finally:
                self._at_work.discard(job)

        self._app.task(name=TASK, queue=QUEUE)(run)

    async def _later(self, job_id: str, wait_s: float) -> None:
        """Queue a job again, to begin after a while by the database's clock."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT priority, now() + make_interval(secs => %s) AS at FROM motet_jobs"
                " WHERE id = %s",
                (wait_s, job_id),
            )
            row = await cursor.fetchone()
            if row is None:
                return
            waiting = Job(
                id=None,
                queue=QUEUE,
                task_name=TASK,
                priority=row["priority"],
                lock=job_id,
                queueing_lock=None,
                task_kwargs={"job": job_id},
                scheduled_at=row["at"],
            )
            await self._app.job_manager.batch_defer_jobs_async([waiting], connection=connection)

    async def _sweep(self, forget: Forget, watch: Watch) -> None:
        tidy_s = 0.0
        while True:
            await self._take_leave()
            await self.take_over()
            await self._let_go()
            await self._requeue_lost()
            await self._expire(forget)
            if time.monotonic() > tidy_s:
                await tidy(self._database)
                tidy_s = time.monotonic() + _TIDY_S
            watch.works()
            await asyncio.sleep(_SWEEP_S)

    async def _take_leave(self) -> None:
        """Free the jobs of workers that ended here while the database was away; their heartbeats
        would hold them for a while yet."""
        for worker in list(self._crew.left):
            await self._app.job_manager.unregister_worker(worker)
            self._crew.left.discard(worker)

    async def take_over(self) -> int:
        """Put jobs of workers that don't beat any more back into the queue; how many."""
        # A clock that was put back would keep the dead alive until it has caught up.
        await self._database.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now()"
            " WHERE last_heartbeat > now() + make_interval(secs => %s)",
            (DEAD_AFTER_S,),
        )
        manager = self._app.job_manager
        stalled = list(await manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER_S))
        for job in stalled:
            await manager.retry_job(job)
            log.info("job %s is taken over", job.lock)
        return len(stalled)

    async def _let_go(self) -> None:
        """Take out of the queue what is marked as run by workers of this process, and isn't, at
        two looks: the database failed just as it was fetched or finished."""
        workers = [one.worker_id for one in self._crew.workers if one.worker_id is not None]
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
        """Queue again what is meant to run and isn't in the queue, whatever went wrong; a part of
        all jobs at each look, so that a long queue doesn't cost more."""
        asked = {"after": self._looked_at, "most": _LOOK_AT, "queue": QUEUE, "task": TASK}
        async with self._database.transaction() as connection:
            await connection.execute("SET LOCAL enable_hashjoin = off")  # it would read all of both
            row = await (await connection.execute(_LOST, asked)).fetchone()
        assert row is not None
        self._looked_at = row["last"] if row["looked_at"] == _LOOK_AT else ""
        if row["lost"]:
            log.warning("%d jobs were lost to the queue; they are back in it", row["lost"])

    async def _expire(self, forget: Forget) -> None:
        """Remove jobs whose retention is over, some at a time; their files go first, so that a
        crash in between leaves none."""
        while found := await expired(self._database, _EXPIRE):
            for job in found:
                await asyncio.to_thread(forget, job)
            await remove(self._database, found)
