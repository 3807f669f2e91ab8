"""One place for a run to wait in: frames that arrive, a clock, and work it started itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

from .frames import Frame


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """The time that was waited for has come."""


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """The frames are at an end."""


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """Work that `Mailbox.start` began is over: `task` holds its result or its exception."""

    tag: object
    task: asyncio.Task[Any]


Mail = Frame | Tick | Ended | Done


class Mailbox:
    """Reads `frames` in a task of its own, at most `bound` ahead, and owns the work of one run.

    Use it as an async context: leaving it cancels the reader and all work, and waits for them.
    One task at a time may wait in `get`.
    """

    def __init__(self, frames: AsyncIterator[Frame], *, bound: int = 32) -> None:
        self._frames = frames
        self._bound = bound
        self._mail: deque[Mail] = deque()
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Mailbox:
        reader = asyncio.create_task(self._read(), name="mailbox reader")
        self._tasks.add(reader)
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def start(self, work: Coroutine[Any, Any, Any], tag: object) -> asyncio.Task[Any]:
        """Begin work whose end arrives as `Done(tag, task)`, behind the mail that is there."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finished(tag, done))
        return task

    async def get(self, until_s: float | None = None) -> Mail:
        """The next mail, or `Tick` once the loop's clock has reached `until_s`.

        Raises:
            Exception: what the frames' source raised, in its place behind them.
        """
        loop = asyncio.get_running_loop()
        while not self._mail:
            if self._error is not None:
                raise self._error
            if until_s is not None and loop.time() >= until_s:
                return Tick()
            self._waiter = loop.create_future()
            timer = loop.call_at(until_s, self._wake) if until_s is not None else None
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        mail = self._mail.popleft()
        if len(self._mail) < self._bound:
            self._room.set()
        return mail

    async def _read(self) -> None:
        try:
            async for frame in self._frames:
                while len(self._mail) >= self._bound:
                    self._room.clear()
                    await self._room.wait()
                self._post(frame)
        except Exception as error:
            self._error = error
            self._wake()
        else:
            self._post(Ended())

    def _finished(self, tag: object, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        task.exception()  # whoever gets the mail looks at it; if nobody does, it isn't "never seen"
        self._post(Done(tag, task))

    def _post(self, mail: Mail) -> None:
        self._mail.append(mail)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
