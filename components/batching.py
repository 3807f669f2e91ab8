"""One engine for every session: requests are gathered into batches and run off the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import ComponentFailed, MotetError, Overloaded

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[Item, Result]):
    item: Item
    future: asyncio.Future[Result]
    came_s: float


class Batcher(Generic[Item, Result]):
    """Runs `infer` on batches of up to `size` items in a thread of its own.

    A batch starts as soon as the engine is free and `window_ms` have passed since its first item,
    or `size` items wait: an idle engine with a window of 0 starts at once, a busy one takes
    everything that came meanwhile. Items whose caller was cancelled are dropped before they run.

    `infer` gets a list and returns one result per item, in order; an exception *as a result* goes
    to that item's caller alone, an exception raised goes to all callers of the batch. More than
    `bound` waiting items raise `Overloaded`.

    `key` keeps items that can't share a batch apart: a batch holds items of one key only.
    `cost` weighs items (tokens, say): then `size` bounds a batch's total, of one item at least.
    Batches of up to `inline` items (or cost) run in the event loop itself: for an engine that is
    done with them sooner than a thread would be woken.
    """

    def __init__(
        self,
        infer: Callable[[list[Item]], Sequence[Result | BaseException]],
        *,
        size: int,
        window_ms: float = 0.0,
        bound: int = 4096,
        name: str = "batcher",
        key: Callable[[Item], object] | None = None,
        cost: Callable[[Item], int] | None = None,
        inline: int = 0,
    ) -> None:
        self._infer = infer
        self._size = size
        self._window_s = window_ms / 1000
        self._bound = bound
        self._name = name
        self._key = key
        self._cost = cost
        self._inline = inline
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._running: list[_Waiting[Item, Result]] = []
        self._wake = asyncio.Event()
        self._pool: Executor | None = None
        self._task: asyncio.Task[None] | None = None
        self.batches = 0
        self.items = 0

    @property
    def waiting(self) -> int:
        """Items that wait for a batch."""
        return len(self._waiting)

    async def __call__(self, item: Item) -> Result:
        """Run one item in the next batch it fits in.

        Raises:
            Overloaded: `bound` items wait already.
            ComponentFailed: the engine broke on it.
        """
        if len(self._waiting) >= self._bound:
            self._waiting = deque(one for one in self._waiting if not one.future.done())
        if len(self._waiting) >= self._bound:
            raise Overloaded(f"{self._bound} items wait already", where=self._name)
        if self._task is None:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(item, future, loop.time()))
        self._wake.set()
        return await future

    def _start(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._task = asyncio.create_task(self._serve(), name=f"{self._name} batches")

    async def _serve(self) -> None:
        while True:
            await self._gather()
            self._running = batch = self._take()
            if batch:
                results = await self._run([one.item for one in batch])
                self._running = []
                for one, result in zip(batch, results, strict=True):
                    self._settle(one.future, result)

    async def _run(self, items: list[Item]) -> Sequence[Result | BaseException]:
        self.batches += 1
        self.items += len(items)
        try:
            if sum(map(self._cost_of, items)) <= self._inline:
                results = self._infer(items)
            else:
                loop = asyncio.get_running_loop()
                results = await loop.run_in_executor(self._pool, self._infer, items)
            if len(results) != len(items):
                raise ValueError(f"the engine gave {len(results)} results for {len(items)} items")
        except Exception as error:
            return [error] * len(items)
        return results

    async def _gather(self) -> None:
        """Wait for a first item, then for others until the window ends or a batch is full."""
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        ends_s = self._waiting[0].came_s + self._window_s
        clock = asyncio.get_running_loop().time
        while (left_s := ends_s - clock()) > 0 and not self._full():
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._wake.wait()

    def _full(self) -> bool:
        return sum(self._cost_of(one.item) for one in self._waiting) >= self._size

    def _cost_of(self, item: Item) -> int:
        return 1 if self._cost is None else self._cost(item)

    def _take(self) -> list[_Waiting[Item, Result]]:
        """The next batch: waiting items of one key, in order, without those given up."""
        batch: list[_Waiting[Item, Result]] = []
        later: deque[_Waiting[Item, Result]] = deque()
        first: object = None
        total = 0
        while self._waiting:
            one = self._waiting.popleft()
            if one.future.done():
                continue
            key = self._key(one.item) if self._key else None
            if batch and key != first:
                later.append(one)
                continue
            total += self._cost_of(one.item)
            if batch and total > self._size:
                later.append(one)
                break
            first = key
            batch.append(one)
        self._waiting.extendleft(reversed(later))
        return batch

    def _settle(self, future: asyncio.Future[Result], result: Result | BaseException) -> None:
        if future.done():
            return
        if isinstance(result, MotetError):
            future.set_exception(result)
        elif isinstance(result, BaseException):
            failed = ComponentFailed(f"{type(result).__name__}: {result}", where=self._name)
            failed.__cause__ = result
            future.set_exception(failed)
        else:
            future.set_result(result)

    async def close(self) -> None:
        """Stop: every caller still waiting gets `ComponentFailed`. Waits for a batch that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for one in (*self._running, *self._waiting):
            self._settle(one.future, ComponentFailed("closed while it waited", where=self._name))
        self._running = []
        self._waiting.clear()
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
            self._pool = None
