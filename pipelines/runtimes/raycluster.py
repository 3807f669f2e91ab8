"""The Ray cluster as this process has it: joined, or started for itself, and left again."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .rayapi import deployed, ray, serve
from .raynode import RayNode

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
        self._control = ThreadPoolExecutor(1, thread_name_prefix="ray control")

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do something that blocks."""
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

    def sweep(self, pipeline: str) -> None:
        """Delete the later versions of a pipeline's nodes that a process which died has left."""
        left = re.compile(rf"motet-{re.escape(pipeline)}-.+-v\d+")
        for app in deployed():
            if left.fullmatch(app):
                serve.delete(app)

    async def release(self, nodes: Iterable[RayNode]) -> None:
        """One runtime less has it, and nobody these nodes. Waits for what was begun before, a
        deployment that nobody wants any more too.
        """
        self.users -= 1
        gone = list(nodes)
        await self.do(lambda: self._leave(gone, last=not self.users))
        if not self.users:
            self._control.shutdown(wait=False)

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
        ours = {node.app for node in nodes if node.ours} & deployed()
        for app in ours:
            serve.delete(app, _blocking=False)
        until_s = time.monotonic() + LEAVE_S
        while left := ours & deployed():
            if time.monotonic() > until_s:
                logger.warning("%s: Ray takes long to end them", ", ".join(sorted(left)))
                return
            time.sleep(0.2)
