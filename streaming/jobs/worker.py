"""`motet worker`: a process that only runs jobs, beside the servers that take them in."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack

from ...pipelines.graph import Graph
from ..operate.hup import Hangup
from ..operate.logs import write_logs
from ..operate.rollout import reload_all
from ..server import Server
from ..settings import Settings
from .door import has_jobs, none_here
from .service import Jobs

logger = logging.getLogger("motet")


def work(graphs: Sequence[Graph], settings: Settings, *, concurrency: int = 8) -> int:
    """Run jobs of these pipelines until a signal ends it; what is at work is left to others.

    Raises:
        NoJobs: the extra isn't installed, or none of the pipelines is run by jobs.
    """
    server = Server.make(graphs, settings.model_copy(update={"host": "127.0.0.1"}))
    if not has_jobs(server):
        raise none_here(server)
    write_logs()
    logger.info("loading %s", ", ".join(server.pipelines))
    return asyncio.run(_work(server, concurrency))


async def _work(server: Server, concurrency: int) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        for pipeline in server.pipelines.values():
            await stack.enter_async_context(pipeline)
        await stack.enter_async_context(Jobs(server).serving(concurrency=concurrency))
        hangup = Hangup(lambda: reload_all(server), stop.set)
        hangup.watch()
        stack.push_async_callback(hangup.close)
        logger.info("runs jobs, %d at once", concurrency)
        await stop.wait()
    return 0
