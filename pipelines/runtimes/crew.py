"""The replicas of one node and the runs that want a place: carries out what the pool decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from ...components.base import Context
from ...components.errors import ComponentFailed, DeadlineExceeded, MotetError, Overloaded
from ..graph import Node
from ..pool import TICK_S, Pool, Ticket, busy_replicas
from .base import NodeStatus
from .worker import Worker

Spawn = Callable[[Callable[[Worker], None]], Worker]


class Crew:
    """Owns the workers of one node. `run` is the task that scales it; `place` admits a run."""

    def __init__(self, node: Node, pool: Pool, spawn: Spawn, *, stop_grace_s: float = 5.0) -> None:
        self.node = node
        self.pool = pool
        self.failed: MotetError | None = None
        self._spawn = spawn
        self._stop_grace_s = stop_grace_s
        self._workers: dict[str, Worker] = {}
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._poke = asyncio.Event()
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Scale until cancelled."""
        while True:
            self._tick()
            self._poke.clear()
            try:
                async with asyncio.timeout(TICK_S):
                    await self._poke.wait()
            except TimeoutError:
                continue

    def _tick(self) -> None:
        now_s = _now_s()
        busy = busy_replicas(one.utilisation for one in self._workers.values())
        todo = self.pool.tick(now_s, busy_replicas=busy)
        for name in todo.stop:
            self._stop(name)
        for _ in range(todo.start):
            try:
                worker = self._spawn(self._changed)
            except MotetError as error:
                self._fail(error)
                return
            self._workers[worker.name] = worker
            self.pool.starting(worker.name, now_s)
            worker.start()
        self._place_all(self.pool.dispatch(now_s) if todo.revive else [])

    def _stop(self, name: str) -> None:
        self.pool.lost(name, _now_s(), expected=True)
        worker = self._workers.pop(name, None)
        if worker is not None:
            self._end(worker, self._stop_grace_s)

    def _end(self, worker: Worker, grace_s: float) -> None:
        task = asyncio.create_task(worker.stop(grace_s), name=f"stop {worker.name}")
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _changed(self, worker: Worker) -> None:
        """A worker has become ready, failed to load, or is gone."""
        now_s = _now_s()
        if worker.name not in self._workers:
            return
        if worker.state == "ready":
            self.failed = None
            self._settled.set()
            self._place_all(self.pool.is_ready(worker.name, now_s))
        elif worker.state in ("failed", "gone"):
            del self._workers[worker.name]
            self.pool.lost(worker.name, now_s)
            if worker.state == "failed":
                self._end(worker, 0.0)
            if not worker.cold_start_s and not self._workers:
                self._fail(worker.error or ComponentFailed("it was ended", where=worker.name))
            self._poke.set()

    def _fail(self, error: MotetError) -> None:
        """No replica is left and the last one couldn't even load: what waits would wait in vain."""
        self.failed = error
        self._settled.set()
        for ticket in self.pool.give_up_all():
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(ComponentFailed(error.message, where=self.node.name))

    def _place_all(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def settled(self) -> None:
        """Wait until a first replica is ready.

        Raises:
            MotetError: it couldn't be started or loaded.
        """
        await self._settled.wait()
        if self.failed is not None:
            raise self.failed

    @asynccontextmanager
    async def place(self, context: Context, prefix: str = "") -> AsyncGenerator[Worker]:
        """Hold a place on a replica for a run, waiting in the queue while all are taken.

        Raises:
            Overloaded: the queue is full, or no place came free in time.
            DeadlineExceeded: the context's deadline passed or can't be kept.
            ComponentFailed: no replica can be started.
        """
        ticket = Ticket(
            session=context.session_id,
            key=context.key,
            priority=context.priority,
            deadline_s=context.deadline_s,
            prefix=prefix,
        )
        if not self.pool.ask(ticket, _now_s()):
            await self._wait(ticket, context)
        try:
            worker = self._workers.get(ticket.replica or "")
            if worker is None:
                raise ComponentFailed(f"replica {ticket.replica} is gone", where=self.node.name)
            yield worker
        finally:
            self._place_all(self.pool.done(ticket, _now_s()))
            if self.pool.replicas.get(ticket.replica or "") is None:
                self._poke.set()

    async def _wait(self, ticket: Ticket, context: Context) -> None:
        future = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        if not self.pool.replicas:
            self._poke.set()
        most_s = self.node.spec.queue.max_wait_s
        left_s = context.remaining_s()
        try:
            async with asyncio.timeout(most_s if left_s is None else min(left_s, most_s)):
                await future
        except BaseException as error:
            self._waiting.pop(ticket, None)
            if not self.pool.give_up(ticket) and ticket.replica is not None:
                self._place_all(self.pool.done(ticket, _now_s()))
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
                retry_after_s=max(1.0, self.pool.expected_wait_s(_now_s())),
            ) from error

    async def close(self) -> None:
        """Stop every worker; runs that wait fail."""
        self._fail(ComponentFailed("the server is stopping", where=self.node.name))
        for name in list(self._workers):
            self._stop(name)
        await asyncio.gather(*self._stopping, return_exceptions=True)

    def status(self) -> NodeStatus:
        """How the node is now."""
        sessions = {name: one.sessions for name, one in self.pool.replicas.items()}
        replicas = tuple(
            worker.status(self.pool.replicas[name].state, sessions[name])
            for name, worker in self._workers.items()
            if name in self.pool.replicas
        )
        ready = [w.utilisation for w in self._workers.values() if w.utilisation is not None]
        return NodeStatus(
            node=self.node.name,
            use=self.node.spec.use,
            replicas=replicas,
            active=self.pool.active,
            queued=len(self.pool.queue),
            concurrency=self.pool.concurrency,
            utilisation=sum(ready) / len(ready) if ready else None,
            refused=self.pool.queue.refused,
        )


def _now_s() -> float:
    """The loop's clock, which is `time.monotonic` wherever time isn't made up."""
    return asyncio.get_running_loop().time()
