"""One of Procrastinate's workers: it takes jobs out of the queue until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from procrastinate import App
from procrastinate.worker import Worker

from ..operate.upkeep import Watch, said

log = logging.getLogger("motet.jobs")

QUEUE = "motet"
HEARTBEAT_S = 2.0
DEAD_AFTER_S = 10.0
_STARTED_S = 0.5


class _SideTasks(logging.Filter):
    """Procrastinate only logs why a worker's side task (heartbeat, listener) has stopped it: this
    hands it on, and keeps the traceback out of the log."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass everything else."""
        if getattr(record, "action", None) != "side_task_failed":
            return True
        error = record.exc_info[1] if record.exc_info else None
        self._watch.failed(said(error) if error is not None else record.getMessage())
        return False


@dataclass(slots=True)
class Crew:
    """The workers of this process, and the ids of those that ended without taking leave of the
    database: the jobs that these held are free."""

    workers: set[Worker] = field(default_factory=set[Worker])
    left: set[int] = field(default_factory=set[int])


async def fetch(app: App, place: int, concurrency: int, crew: Crew, watch: Watch) -> None:
    """Run a worker of the crew until cancelled, or until something breaks it; the jobs that it
    held are given up then, for others to take over.

    Raises:
        Exception: what broke it. Where that was a side task, it only returns.
    """
    worker = Worker(
        app,
        queues=[QUEUE],
        name=f"motet-{place}",
        concurrency=concurrency,
        install_signal_handlers=False,
        fetch_job_polling_interval=2.0,
        abort_job_polling_interval=2.0,
        update_heartbeat_interval=HEARTBEAT_S,
        stalled_worker_timeout=DEAD_AFTER_S,
        shutdown_graceful_timeout=0.5,
        delete_jobs="always",
    )
    heard = _SideTasks(watch)
    worker.logger.addFilter(heard)
    running = asyncio.create_task(worker.run(), name="jobs worker run")
    crew.workers.add(worker)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=_STARTED_S)
            if worker.worker_id is not None and not running.done():
                watch.works()
                await asyncio.wait({running})
        if not running.cancelled():
            running.result()
    finally:
        crew.workers.discard(worker)
        await _stopped(worker, running)
        if worker.worker_id is not None:
            crew.left.add(worker.worker_id)
        worker.logger.removeFilter(heard)


async def _stopped(worker: Worker, running: asyncio.Task[None]) -> None:
    """Ask a worker to stop until it has: it may still be starting, and cancelling it then is lost
    in its database driver (`asyncio.wait_for` before Python 3.12)."""
    while not running.done():
        worker.stop()
        await asyncio.wait({running}, timeout=0.2)
    if not running.cancelled() and (error := running.exception()) is not None:
        log.debug("the worker ended with %r", error)
