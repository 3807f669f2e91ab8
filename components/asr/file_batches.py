"""The batches of one file at work: on the lanes here, and on free ones of fellows."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass

from ..base import Fellows
from ..errors import MotetError, Overloaded
from .file_chunks import Chunk
from .file_decode import Ask, ChunkDecoder, ChunkText
from .file_lanes import Lanes
from .file_language import LanguageVote
from .file_lend import LentLane
from .file_schedule import Schedule

logger = logging.getLogger("motet")
Batch = list[tuple[int, Chunk]]

# How long after a refusal the fellows are asked again.
_ASK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many chunks share the decoder, and mel frames; the `first` batches have fewer chunks."""

    full: int
    first: int
    frames: int


class Batches:
    """Takes chunks from a schedule and gives it their texts; a task for each batch at work.

    A batch is lent while all lanes here are taken. What is lost with a fellow is decoded here.
    """

    def __init__(
        self,
        schedule: Schedule[ChunkText],
        lanes: Lanes,
        decoder: ChunkDecoder,
        ask: Ask,
        vote: LanguageVote,
        sizes: Sizes,
        *,
        name: str,
        fellows: Fellows | None,
    ) -> None:
        self._schedule = schedule
        self._lanes = lanes
        self._decoder = decoder
        self._ask = ask
        self._vote = vote
        self._sizes = sizes
        self._name = name
        self._fellows = fellows
        self._stop = threading.Event()
        self._here: set[asyncio.Future[None]] = set()
        self._lent: set[asyncio.Future[None]] = set()
        self._asking = False
        self._ask_after_s = 0.0
        self._granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun = 0
        self._reading = self._read_all = False

    @property
    def width(self) -> int:
        """Lanes that work on the file."""
        return self._lanes.count + len(self._lent)

    @property
    def at_work(self) -> bool:
        """Whether any batch is under way."""
        return len(self._here) + len(self._lent) > self._asking

    @property
    def news(self) -> set[asyncio.Future[None]]:
        """Done when a batch is, or when another may be lent."""
        return {*self._here, *self._lent, self._granted}

    def patience_s(self) -> float | None:
        """When to `start` again though there is no news: once fellows may have a lane."""
        wanting = self._fellows is not None and not self._asking and self._enough()
        return max(0.0, self._ask_after_s - time.monotonic()) if wanting else None

    def start(self, *, reading: bool, read_all: bool) -> None:
        """Begin as many batches as there are lanes; `reading` says that more chunks may come."""
        self._reading, self._read_all = reading, read_all
        while self._enough():
            may_lend = self._fellows is not None and time.monotonic() >= self._ask_after_s
            if len(self._here) < self._lanes.count and (self._lanes.free or not may_lend):
                batch = self._take()
                self._here.add(asyncio.create_task(self._decode(batch), name=f"here {self._name}"))
            elif may_lend and not self._asking:
                self._asking = True
                self._lent.add(asyncio.create_task(self._lend(), name=f"lent {self._name}"))
                return
            else:
                return

    def settle(self, done: Iterable[asyncio.Future[None]]) -> None:
        """Note what is done; what failed there is raised here."""
        if self._granted.done():
            self._granted = asyncio.get_running_loop().create_future()
        for task in done:
            self._here.discard(task)
            self._lent.discard(task)
            task.result()

    def _take(self) -> Batch:
        """The next batch: full; towards the end an equal share for each lane: none idles."""
        self._begun += 1
        if not self._read_all:
            return self._schedule.take(self._sizes.full, self._sizes.frames)
        share = -(-self._schedule.waiting // self.width)
        return self._schedule.take(max(1, min(self._sizes.full, share)), self._sizes.frames)

    def _enough(self) -> bool:
        """Whether a batch is worth starting: full, or early, or nothing more to wait for."""
        waiting = self._schedule.waiting
        early = self._begun < self._lanes.count
        wanted = min(self._sizes.full, self._sizes.first) if early else self._sizes.full
        return waiting >= wanted or (waiting > 0 and not self._reading)

    async def _decode(self, batch: Batch) -> None:
        chunks = [chunk for _, chunk in batch]
        texts = await self._lanes.take().run(
            lambda: self._decoder.decode(chunks, self._ask, self._vote, self._stop)
        )
        self._finish(batch, texts)

    async def _lend(self) -> None:
        assert self._fellows is not None
        batch: Batch = []
        try:
            async with aclosing(LentLane(self._fellows)) as lane:
                await lane.granted()
                self._ask_again(after_s=0.0)
                if self._enough():
                    batch = self._take()
                    chunks = [chunk for _, chunk in batch]
                    self._finish(batch, await lane.decode(chunks, self._ask, self._vote))
                    # That lane is free, whatever another was refused meanwhile.
                    self._ask_after_s = 0.0
        except MotetError as error:
            self._ask_again(after_s=_ASK_AGAIN_S)
            if not isinstance(error, Overloaded):
                logger.info("%s: a fellow failed, %d chunks: %s", self._name, len(batch), error)
            if batch:
                await self._decode(batch)

    def _ask_again(self, *, after_s: float) -> None:
        self._asking = False
        self._ask_after_s = time.monotonic() + after_s
        if not self._granted.done():
            self._granted.set_result(None)

    def _finish(self, batch: Batch, texts: list[ChunkText]) -> None:
        for (number, chunk), text in zip(batch, texts, strict=True):
            self._schedule.finish(number, chunk, text)

    async def cancel(self) -> None:
        """Stop: what runs in threads ends at its next step, and nobody waits for it."""
        self._stop.set()
        tasks = [*self._here, *self._lent]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
