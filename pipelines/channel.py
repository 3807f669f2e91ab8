"""A bounded channel between two tasks of one event loop: the in-process form of an edge."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..components.errors import Overloaded
from .spec import Overflow

Item = TypeVar("Item")


class Channel(Generic[Item]):
    """Holds at most `capacity` items; then `put` waits, drops the oldest, or raises, as told. The
    oldest is one that isn't to be kept, where there is one.

    Iterate it from one task. It ends after `close` once what it holds is taken. Built for live
    audio: while there is room, `put` and a `get` that finds something never suspend. Room that
    comes free goes to those who wait for it, in the order in which they came.
    """

    def __init__(
        self,
        capacity: int,
        overflow: Overflow = "block",
        *,
        name: str = "",
        keep: Callable[[Item], bool] = lambda _: False,
    ) -> None:
        self._items: deque[Item] = deque()
        self._capacity = capacity
        self._overflow = overflow
        self._name = name
        self._keep = keep
        self._closed = False
        self._getter: asyncio.Future[None] | None = None
        self._putters: dict[asyncio.Future[bool], Item] = {}
        self.dropped = 0
        self.taken = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Whether `close` was called; items may still wait."""
        return self._closed

    @property
    def has_room(self) -> bool:
        """Whether `offer` would take an item."""
        full = len(self._items) >= self._capacity
        return not self._closed and not (full and self._overflow != "drop_oldest")

    def offer(self, item: Item) -> bool:
        """Put without waiting; False when a "block" channel is full or the channel is closed.

        Raises:
            Overloaded: full, and the overflow is "error".
        """
        if self._closed:
            return False
        if len(self._items) >= self._capacity and not self._make_room():
            return False
        self._items.append(item)
        self._wake(self._getter)
        return True

    async def put(self, item: Item) -> bool:
        """Put, waiting for room if the channel blocks; False if it was closed meanwhile.

        Raises:
            Overloaded: full, and the overflow is "error".
        """
        if self.offer(item):
            return True
        if self._closed:
            return False
        admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._putters[admitted] = item
        try:
            return await admitted
        finally:
            self._putters.pop(admitted, None)

    def force(self, item: Item) -> None:
        """Put past the capacity, for the few items that must not be lost; not when closed."""
        if not self._closed:
            self._items.append(item)
            self._wake(self._getter)

    def _make_room(self) -> bool:
        if self._overflow == "drop_oldest":
            places = (n for n, item in enumerate(self._items) if not self._keep(item))
            del self._items[next(places, 0)]
            self.dropped += 1
            return True
        if self._overflow == "error":
            raise Overloaded(f"{self._capacity} frames wait already", where=self._name)
        return False

    def put_back(self, items: Sequence[Item]) -> None:
        """Put items before all others, past the capacity, for the next to read here."""
        self._items.extendleft(reversed(items))
        self._wake(self._getter)

    def close(self) -> None:
        """No more items; the reader takes what is left and ends. Waiting putters give up."""
        self._closed = True
        self._wake(self._getter)
        for admitted in self._putters:
            if not admitted.done():
                admitted.set_result(False)

    def interrupt(self) -> None:
        """End the iteration of a reader that waits now; another one may go on from there."""
        if self._getter is not None and not self._getter.done():
            self._getter.set_exception(StopAsyncIteration())

    def __aiter__(self) -> Channel[Item]:
        return self

    async def __anext__(self) -> Item:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._getter = asyncio.get_running_loop().create_future()
            try:
                await self._getter
            finally:
                self._getter = None
        item = self._items.popleft()
        self.taken += 1
        self._admit()
        return item

    def _admit(self) -> None:
        """Take in what those who wait longest want to put, as far as there is room."""
        while self._putters and len(self._items) < self._capacity:
            admitted = next(iter(self._putters))
            item = self._putters.pop(admitted)
            if not admitted.done():
                self._items.append(item)
                admitted.set_result(True)

    @staticmethod
    def _wake(future: asyncio.Future[None] | None) -> None:
        if future is not None and not future.done():
            future.set_result(None)
