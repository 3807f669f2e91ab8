"""The threads of a replica that decode: which are taken, and how busy they have been lately."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..errors import Overloaded

Answer = TypeVar("Answer")
MEAN_S = 5.0
"""Eight seconds at work make a load of 0.8, where scaling adds a replica; a short file doesn't."""


class Busy:
    """A share that changes in steps, averaged over about `mean_s`; pure, the clock passed in."""

    def __init__(self, now_s: float, mean_s: float = MEAN_S) -> None:
        self._mean_s = mean_s
        self._mean = self._share = 0.0
        self._since_s = now_s

    def change(self, share: float, now_s: float) -> None:
        """From now on it is `share`."""
        self._mean = self.mean(now_s)
        self._share, self._since_s = share, now_s

    def mean(self, now_s: float) -> float:
        """Its average; what was longer ago counts less."""
        kept = math.exp(-max(0.0, now_s - self._since_s) / self._mean_s)
        return self._mean * kept + self._share * (1 - kept)


class Lanes:
    """The threads that all files of a replica share: `count` batches are decoded at once."""

    def __init__(
        self,
        count: int,
        decoders: ThreadPoolExecutor,
        readers: ThreadPoolExecutor,
        mean_s: float = MEAN_S,
    ) -> None:
        self.count = count
        self.decoders = decoders
        self.readers = readers
        self._taken = 0
        self._lock = threading.Lock()
        self._busy = Busy(time.monotonic(), mean_s)

    @property
    def free(self) -> bool:
        """Whether a batch would be decoded at once."""
        return self._taken < self.count

    @property
    def utilisation(self) -> float:
        """How busy they have been lately, 0..1."""
        with self._lock:
            return self._busy.mean(time.monotonic())

    def take(self) -> Lane:
        """A place for a batch, behind those that wait."""
        self._change(1)
        return Lane(self)

    def take_free(self, *, where: str) -> Lane:
        """A place for a batch that is decoded at once.

        Raises:
            Overloaded: there is none.
        """
        if not self.free:
            raise Overloaded(f"all {self.count} lanes are at work", where=where)
        return self.take()

    def leave(self) -> None:
        """A place is free again; from any thread."""
        self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._taken += by
            self._busy.change(min(1.0, self._taken / self.count), time.monotonic())


class Lane:
    """A place for one batch; taken until the batch's thread has ended, or it is given up."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._idle = True

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """Decode the batch; once. Cancelling doesn't stop the thread."""
        future: Future[Answer] = self._lanes.decoders.submit(call)
        self._idle = False
        future.add_done_callback(lambda _: self._lanes.leave())
        return await asyncio.wrap_future(future)

    def give_up(self) -> None:
        """Nothing will run here any more; what runs already keeps the place. Idempotent."""
        if self._idle:
            self._idle = False
            self._lanes.leave()
