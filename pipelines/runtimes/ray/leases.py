"""Leases of a node's replicas on Ray for the runs that wait: who gets the next one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ....components.base import Context
from ....components.errors import ComponentFailed, MotetError
from ...queueing import WorkQueue
from ...spec import Queue
from .host import RayHost


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease: the call of Ray's that holds it, and the replica."""

    held: Any
    host: RayHost


class Leases:
    """For each run that waits a lease is asked of Ray, so that Ray counts the run and scales by it.
    Leases are alike: whichever comes is for the run that is next in the queue.
    """

    def __init__(self, queue: Queue, ask: Callable[[], Awaitable[Granted]], *, where: str) -> None:
        # Which bound holds depends on the places that are free: its caller's business.
        unbounded = queue.model_copy(update={"bound": sys.maxsize})
        self._queue: WorkQueue[asyncio.Future[Granted]] = WorkQueue(unbounded, where=where)
        self._ask = ask
        self._where = where
        self._asking: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Runs that wait."""
        return len(self._queue)

    async def get(self, context: Context) -> Granted:
        """Wait for a lease in the queue's order; cancelled, it leaves nothing asked or held.

        Raises:
            Exception: what asking Ray raised.
        """
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Granted] = loop.create_future()
        self._queue.push(
            waiting,
            now_s=loop.time(),
            expected_wait_s=0.0,
            key=context.key,
            priority=context.priority,
        )
        self._asking.append(loop.create_task(self._bring(), name="asks for a lease"))
        try:
            return await waiting
        except asyncio.CancelledError:
            self._queue.remove(waiting)
            if not waiting.cancelled() and waiting.exception() is None:
                self._give(waiting.result())
            self._ask_no_more_than_wait()
            raise

    def _stopping(self) -> MotetError:
        return ComponentFailed("the server is stopping", where=self._where)

    async def _bring(self) -> None:
        try:
            granted = await self._ask()
        except Exception as error:
            self._asked()
            fault = error
            self._next(lambda waiting: waiting.set_exception(fault))
        else:
            self._asked()
            self._give(granted)

    def _asked(self) -> None:
        """This task asks no more: what it brought is counted by its run from here on."""
        task = asyncio.current_task()
        self._asking = [one for one in self._asking if one is not task]

    def _give(self, granted: Granted) -> None:
        if not self._next(lambda waiting: waiting.set_result(granted)):
            granted.held.cancel()

    def _next(self, tell: Callable[[asyncio.Future[Granted]], object]) -> bool:
        """Tell the run that is next; False if none waits."""
        while (waiting := self._queue.pop()) is not None:
            if not waiting.done():
                tell(waiting)
                return True
        return False

    def _ask_no_more_than_wait(self) -> None:
        """Take back the latest requests: Ray grants the earlier ones first."""
        while len(self._asking) > len(self._queue):
            task = self._asking.pop()
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Ask for nothing more; runs that wait fail. Idempotent."""
        while self._next(lambda waiting: waiting.set_exception(self._stopping())):
            pass
        self._ask_no_more_than_wait()
        await asyncio.gather(*self._ending, return_exceptions=True)
