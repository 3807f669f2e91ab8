"""The Ray cluster as this process has it: joined, or started for itself, and left again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .api import dead_jobs, deployed, job, ray, serve
from .deployment import job_of
from .node import RayNode

logger = logging.getLogger("motet")
LEAVE_S = 60.0
Result = TypeVar("Result")


class Cluster:
    """What is done to it is done by one thread, in order: nothing comes after it was left, as most
    calls of Serve would join it again. `users` counts the open runtimes that have it.
    """

    def __init__(self) -> None:
        self.users = 0
        self._own = False
        self._numbers = itertools.count(1)
        self._control: ThreadPoolExecutor | None = None

    def number(self) -> int:
        """Tells one user from the others of this process."""
        return next(self._numbers)

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do something that blocks."""
        if self._control is None:
            self._control = ThreadPoolExecutor(1, thread_name_prefix="ray control")
        return await asyncio.get_running_loop().run_in_executor(self._control, work)

    def join(self, address: str | None, *, serving: bool = True) -> None:
        """Join the cluster at `address`, or start one here; nothing where that was done. Blocks.

        Serve is started there, unless not `serving`.

        Raises:
            ConnectionError: there is no cluster at `address`.
        """
        if not ray.is_initialized():
            paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
            self._own = address is None
            ray.init(
                address=address or "local",
                include_dashboard=False if self._own else None,
                log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": paths}} if self._own else None,
            )
        if serving:
            serve.start(proxy_location="Disabled")

    def server(self, number: int) -> str:
        """What applications are named after that this process, once it has joined, deploys."""
        return f"{job()}.{number}"

    def sweep(self) -> None:
        """End the applications of servers that have died. Blocks until their places are free."""
        dead = dead_jobs()
        _end({app for app in deployed() if job_of(app) in dead})

    async def release(self, nodes: Iterable[RayNode]) -> None:
        """One runtime less has it, and nobody these nodes. Waits for what was begun before, a
        deployment that nobody wants any more too.
        """
        self.users -= 1
        gone = list(nodes)
        await self.do(lambda: self._leave(gone, last=not self.users))
        if not self.users and self._control is not None:
            self._control.shutdown(wait=False)
            self._control = None

    def _leave(self, nodes: list[RayNode], *, last: bool) -> None:
        if not ray.is_initialized():
            return
        for node in nodes:
            node.forget()
        if self._own and last:
            serve.shutdown()
            ray.shutdown()
            self._own = False
            return
        _end({node.app for node in nodes if node.ours} & deployed())


def _end(apps: set[str]) -> None:
    """End applications and wait until they are gone."""
    for app in apps:
        serve.delete(app, _blocking=False)
    until_s = time.monotonic() + LEAVE_S
    while left := apps & deployed():
        if time.monotonic() > until_s:
            logger.warning("%s: Ray takes long to end them", ", ".join(sorted(left)))
            return
        time.sleep(0.2)


CLUSTER = Cluster()
"""The one that a process may have joined: Ray knows no second."""
