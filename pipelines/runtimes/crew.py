"""The workers of one node: started, stopped and replaced as the pool decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...components.errors import ComponentFailed, MotetError
from ..graph import Node
from ..pool import TICK_S, Pool, busy_replicas
from .placing import Placing, clock_s
from .worker import Worker

Spawn = Callable[[Callable[[Worker], None]], Worker]


class Crew(Placing[Worker]):
    """Owns the workers of one node. `run` is the task that scales it; `place` admits a run."""

    def __init__(
        self,
        node: Node,
        pool: Pool,
        spawn: Spawn,
        *,
        stop_grace_s: float = 5.0,
        version: str = "1",
    ) -> None:
        super().__init__(node, pool, version=version)
        self.failed: MotetError | None = None
        self._spawn = spawn
        self._stop_grace_s = stop_grace_s
        self._stopping: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Scale until cancelled."""
        while True:
            self._tick()
            self.poke.clear()
            try:
                async with asyncio.timeout(TICK_S):
                    await self.poke.wait()
            except TimeoutError:
                continue

    def _tick(self) -> None:
        now_s = clock_s()
        busy = busy_replicas(one.utilisation for one in self.replicas.values())
        todo = self.pool.tick(now_s, busy_replicas=busy)
        for name in todo.drain:
            self.replicas[name].draining.set()
        for name in todo.revive:
            self.replicas[name].draining.clear()
        for name in todo.stop:
            self._stop(name)
        for _ in range(todo.start):
            try:
                worker = self._spawn(self._changed)
            except MotetError as error:
                self._fail(error)
                return
            self.replicas[worker.name] = worker
            self.pool.starting(worker.name, now_s)
            worker.start()
        self.place_all(self.pool.dispatch(now_s) if todo.revive else [])

    def _stop(self, name: str) -> None:
        self.pool.lost(name, clock_s(), expected=True)
        worker = self.replicas.pop(name, None)
        if worker is not None:
            self._end(worker, self._stop_grace_s)

    def _end(self, worker: Worker, grace_s: float) -> None:
        task = asyncio.create_task(worker.stop(grace_s), name=f"stop {worker.name}")
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _changed(self, worker: Worker) -> None:
        """A worker has become ready, failed to load, or is gone."""
        now_s = clock_s()
        if worker.name not in self.replicas:
            return
        if worker.state == "ready":
            self.failed = None
            self._settled.set()
            self.place_all(self.pool.is_ready(worker.name, now_s))
        elif worker.state in ("failed", "gone"):
            del self.replicas[worker.name]
            self.pool.lost(worker.name, now_s)
            if worker.state == "failed":
                self._end(worker, 0.0)
            if not worker.cold_start_s and not self.replicas:
                self._fail(worker.error or ComponentFailed("it was ended", where=worker.name))
            self.poke.set()

    def _fail(self, error: MotetError) -> None:
        """No replica is left and the last one couldn't even load: what waits would wait in vain."""
        self.failed = error
        self._settled.set()
        self.fail_waiting(error)

    async def settled(self) -> None:
        """Wait until a first replica is ready.

        Raises:
            MotetError: it couldn't be started or loaded.
        """
        await self._settled.wait()
        if self.failed is not None:
            raise self.failed

    async def close(self) -> None:
        """Stop every worker; runs that wait fail."""
        await self._rest()
        self._fail(ComponentFailed("the server is stopping", where=self.node.name))
        for name in list(self.replicas):
            self._stop(name)
        await asyncio.gather(*self._stopping, return_exceptions=True)
