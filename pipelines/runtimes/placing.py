"""Runs of one node and the replicas that serve them: who waits, who is placed where."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from ...components.base import Context
from ...components.errors import (
    ComponentFailed,
    DeadlineExceeded,
    MotetError,
    Overloaded,
    ReplicaGone,
)
from ...components.frames import Frame
from ..graph import Node
from ..pool import Pool, Ticket
from .base import NodeStatus, ReplicaStatus


class Serving(Protocol):
    """A replica, wherever it is, that serves runs by the hop."""

    @property
    def name(self) -> str:
        """Its name among the replicas of its node."""
        ...

    @property
    def draining(self) -> asyncio.Event:
        """Set while it is to go: no more runs are placed on it."""
        ...

    @property
    def utilisation(self) -> float | None:
        """How busy it says it is."""
        ...

    @property
    def silent(self) -> bool:
        """Whether it should have been heard by now."""
        ...

    def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        """Run its component; see `Runtime.call`."""
        ...

    def status(self, state: str, sessions: int) -> ReplicaStatus:
        """As `motet status` shows it."""
        ...


One = TypeVar("One", bound=Serving)


class Placing(ABC, Generic[One]):
    """Admits runs to the replicas that a pool chooses. Who brings replicas is told when to look:
    `poke` is set when a run waits for a first one.

    Versions of a pipeline may share one: `users` counts the open runtimes that have it.
    """

    def __init__(self, node: Node, pool: Pool, *, version: str = "1") -> None:
        self.node = node
        self.pool = pool
        self.version = version
        self.poke = asyncio.Event()
        self.replicas: dict[str, One] = {}
        self.users = 0
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}

    @abstractmethod
    async def run(self) -> None:
        """Bring replicas and take them away until cancelled."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of every replica; runs that wait fail."""

    def open(self) -> None:
        """One runtime more has it; with the first, `run` begins."""
        self.users += 1
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name=f"replicas of {self.node.name}")

    async def release(self) -> None:
        """One runtime less has it; it is closed with the last."""
        self.users -= 1
        if not self.users:
            await self.close()

    @property
    def alive(self) -> bool:
        """Whether its task runs."""
        return self._task is not None and not self._task.done()

    async def _rest(self) -> None:
        """End the task of `run`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def place_all(self, tickets: list[Ticket]) -> None:
        """These waiting runs have a place now."""
        for ticket in tickets:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(None)

    def fail_waiting(self, error: MotetError) -> None:
        """What waits would wait in vain."""
        for ticket in self.pool.give_up_all():
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(ComponentFailed(error.message, where=self.node.name))

    @asynccontextmanager
    async def place(
        self, context: Context, prefix: str = "", *, wait: bool = True, beside: str = ""
    ) -> AsyncGenerator[One]:
        """Hold a place on a replica for a run, waiting in the queue while all are taken. What a
        run lends to others goes `beside` its replica.

        Raises:
            Overloaded: the queue is full, no place came free in time, or (unless `wait`) at once.
            DeadlineExceeded: the context's deadline passed or can't be kept.
            ComponentFailed: no replica can be started.
        """
        ticket = Ticket(
            # A session's home is where its runs are, not where they lend.
            session="" if beside else context.session_id,
            key=context.key,
            priority=context.priority,
            deadline_s=context.deadline_s,
            prefix=prefix,
            beside=beside,
        )
        if not wait and (len(self.pool.queue) or not self.pool.has_room(beside)):
            raise Overloaded("no place is free now", where=self.node.name)
        for name, one in self.pool.replicas.items():
            one.silent = name in self.replicas and self.replicas[name].silent
        if not self.pool.ask(ticket, clock_s()):
            await self._wait(ticket, context)
        try:
            worker = self.replicas.get(ticket.replica or "")
            if worker is None:
                raise ReplicaGone(f"replica {ticket.replica} is gone", where=self.node.name)
            yield worker
        finally:
            self.place_all(self.pool.done(ticket, clock_s()))
            if self.pool.replicas.get(ticket.replica or "") is None:
                self.poke.set()

    async def _wait(self, ticket: Ticket, context: Context) -> None:
        future = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        if not self.pool.replicas:
            self.poke.set()
        most_s = self.node.spec.queue.max_wait_s
        left_s = context.remaining_s()
        try:
            async with asyncio.timeout(most_s if left_s is None else min(left_s, most_s)):
                await future
        except BaseException as error:
            self._waiting.pop(ticket, None)
            if not self.pool.give_up(ticket) and ticket.replica is not None:
                self.place_all(self.pool.done(ticket, clock_s()))
            if not isinstance(error, TimeoutError):
                raise
            self.pool.queue.refused += 1
            if left_s is not None and left_s <= most_s:
                raise DeadlineExceeded(
                    "the deadline passed in the queue", where=self.node.name
                ) from error
            raise Overloaded(
                f"no place came free in {most_s} s",
                where=self.node.name,
                retry_after_s=max(1.0, self.pool.expected_wait_s(clock_s())),
            ) from error

    def status(self) -> NodeStatus:
        """How the node is now."""
        sessions = {name: one.sessions for name, one in self.pool.replicas.items()}
        replicas = tuple(
            replace(
                worker.status(self.pool.replicas[name].state, sessions[name]), version=self.version
            )
            for name, worker in self.replicas.items()
            if name in self.pool.replicas
        )
        ready = [w.utilisation for w in self.replicas.values() if w.utilisation is not None]
        return NodeStatus(
            node=self.node.name,
            use=self.node.spec.use,
            replicas=replicas,
            active=self.pool.active,
            queued=len(self.pool.queue),
            concurrency=self.pool.concurrency,
            utilisation=sum(ready) / len(ready) if ready else None,
            refused=self.pool.queue.refused,
            version=self.version,
        )


def clock_s() -> float:
    """The loop's clock, which is `time.monotonic` wherever time isn't made up."""
    return asyncio.get_running_loop().time()
