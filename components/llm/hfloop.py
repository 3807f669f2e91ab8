"""Continuous batching: each step computes one token for every request that runs, whoever joins.

A new prompt is read a stretch at a time between the steps of the others, then takes a row beside
theirs. A request that is over or given up frees its row before the next step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from transformers.cache_utils import DynamicCache

from ..errors import ComponentFailed, MotetError, Overloaded
from ..vlm import Picture
from .hfmodel import HfModel
from .hfprefix import Marks, PrefixCache, layers_of, marks_of
from .hfslots import SlotCache
from .sampling import Sampler, Scored

Reason = Literal["stop", "length"]
Answer = Scored | Reason | Exception

MOST_WAITING = 1024


@dataclass(slots=True, eq=False)
class Request:
    """A prompt in tokens and what is wanted of the answer; `answers` gets what is made of it.

    `cached` of its tokens were known already. `marks` say what stands at its places, `tokens` are
    the answer's.
    """

    ids: list[int]
    pictures: tuple[Picture, ...]
    sampler: Sampler
    max_tokens: int
    ends: frozenset[int]
    adapter: str | None = None
    answers: asyncio.Queue[Answer] = field(default_factory=lambda: asyncio.Queue[Answer]())
    given_up: bool = False
    last: int = 0
    length: int = 0
    ahead: int = 0
    made: int = 0
    cached: int = 0
    marks: Marks = field(default_factory=lambda: np.empty(0, np.int64))
    tokens: list[int] = field(default_factory=list[int])


@dataclass(slots=True, eq=False)
class _Reading:
    """A prompt that is being read."""

    request: Request
    embedded: Any
    positions: Any
    cache: DynamicCache
    done: int = 0


class HfLoop:
    """The step loop over one model. Steps run in a thread of its own, from `start` to `close`."""

    def __init__(
        self,
        model: HfModel,
        *,
        slots: int,
        stretch: int,
        prefixes: PrefixCache,
        name: str,
    ) -> None:
        self._model = model
        self._slots = slots
        self._stretch = stretch
        self._name = name
        self._prefixes = prefixes
        self._cache: SlotCache = model.slots(slots)
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._reading: _Reading | None = None
        self._made: list[tuple[Request, Answer]] = []
        self._wake = asyncio.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self.steps = 0

    @property
    def active(self) -> int:
        """Requests that have a row or are being read."""
        return len(self._running) + (self._reading is not None)

    def start(self) -> None:
        """Begin to step; the loop sleeps while there is nothing to do."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._task = asyncio.create_task(self._serve(), name=f"{self._name} steps")

    async def answer(self, request: Request) -> AsyncGenerator[Scored | Reason]:
        """The tokens of an answer, then why it ended. Closing the iterator frees its row.

        Raises:
            Overloaded: too many requests wait already.
            ComponentFailed: the model broke.
        """
        if self._task is None:
            raise ComponentFailed("it isn't loaded", where=self._name)
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} prompts wait already", where=self._name)
        self._waiting.append(request)
        self._wake.set()
        try:
            while True:
                item = await request.answers.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, str):
                    return
        finally:
            request.given_up = True
            with suppress(ValueError):  # it may have a row long since
                self._waiting.remove(request)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not (self._waiting or self._running or self._reading):
                self._wake.clear()
                await self._wake.wait()
            try:
                await loop.run_in_executor(self._pool, self._step)
            except Exception as error:
                self._fail(error)
            # Of a step that broke too: what was made for a request may have ended it.
            self._deliver()

    def _deliver(self) -> None:
        made, self._made = self._made, []
        for request, item in made:
            request.answers.put_nowait(item)

    def _fail(self, error: Exception) -> None:
        """A step broke: all that ran is lost, what waits goes on."""
        hit = [*self._running, *([self._reading.request] if self._reading else [])]
        self._running, self._reading = [], None
        self._cache = self._model.slots(self._slots)
        self._made += [(request, self._told(error)) for request in hit]

    def _told(self, error: Exception) -> MotetError:
        if isinstance(error, MotetError):
            return error
        told = ComponentFailed(f"{type(error).__name__}: {error}", where=self._name)
        told.__cause__ = error
        return told

    def _step(self) -> None:
        """One stretch of a new prompt, one token for each that runs."""
        self._model.use_threads()
        self.steps += 1
        for row in reversed(range(len(self._running))):
            if self._running[row].given_up:
                self._free(row)
        self._read()
        rows = list(self._running)
        if rows:
            logits = self._model.step(
                [one.last for one in rows],
                [one.length for one in rows],
                [one.ahead for one in rows],
                self._cache,
                [one.adapter for one in rows],
            )
            for row in reversed(range(len(rows))):
                rows[row].length += 1
                if self._take(rows[row], logits[row]):
                    self._free(row)

    def _free(self, row: int) -> None:
        """Give a row back, its beginning kept; the last one moves into the gap."""
        over = self._running[row]
        marks = np.concatenate((over.marks, np.array(over.tokens, np.int64)))[: over.length]
        self._prefixes.keep(marks, over.adapter, layers_of(self._cache, row))
        last = len(self._running) - 1
        if row != last:
            self._cache.move(last, row)
            self._running[row] = self._running[last]
        self._running.pop()

    def _read(self) -> None:
        """Go on reading a prompt, or begin with the next one if there is a row for it."""
        if self._reading is not None and self._reading.request.given_up:
            self._reading = None
        while self._reading is None and self._waiting and len(self._running) < self._slots:
            request = self._waiting.popleft()
            if not request.given_up:
                self._begin(request)
        reading = self._reading
        if reading is None:
            return
        end = min(reading.done + self._stretch, len(reading.request.ids))
        part = slice(reading.done, end)
        logits = self._model.read(
            reading.embedded[:, part],
            reading.positions[..., part],
            reading.cache,
            reading.request.adapter,
        )
        reading.done = end
        if end == len(reading.request.ids):
            self._join(reading, logits)
            self._reading = None

    def _begin(self, request: Request) -> None:
        try:
            embedded = self._model.embed(request.ids, request.pictures)
            positions, request.ahead = self._model.positions(request.ids, request.pictures)
            request.marks = marks_of(request.ids, request.pictures, self._model.image_token)
            request.cached, cache = self._prefixes.find(request.marks, request.adapter)
        except (MotetError, RuntimeError, ValueError, IndexError) as error:
            # What is wrong with this prompt alone is to cost the others nothing.
            self._made.append((request, self._told(error)))
            return
        self._reading = _Reading(request, embedded, positions, cache, request.cached)

    def _join(self, reading: _Reading, logits: Any) -> None:
        request = reading.request
        self._prefixes.keep(request.marks, request.adapter, layers_of(reading.cache, 0))
        request.length = len(request.ids)
        if not self._take(request, logits):
            self._cache.join(len(self._running), reading.cache)
            self._running.append(request)

    def _take(self, request: Request, logits: Any) -> bool:
        """Choose a token; True when the answer is over."""
        try:
            scored = request.sampler.choose(logits)
        except (RuntimeError, ValueError) as error:
            # No number to choose by, in this row alone.
            self._made.append((request, self._told(error)))
            return True
        if scored.token in request.ends:
            self._made.append((request, "stop"))
            return True
        request.last = scored.token
        request.tokens.append(scored.token)
        request.made += 1
        self._made.append((request, scored))
        if request.made >= request.max_tokens:
            self._made.append((request, "length"))
            return True
        return False

    async def close(self) -> None:
        """Stop after the step under way; whoever still waits gets `ComponentFailed`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._pool is not None:
            # Before anything is taken from a step that still runs.
            await asyncio.to_thread(self._pool.shutdown)
            self._pool = None
        self._deliver()
        closed = ComponentFailed("closed while it answered", where=self._name)
        reading = [self._reading.request] if self._reading else []
        for request in (*self._running, *reading, *self._waiting):
            request.answers.put_nowait(closed)
        self._running, self._reading = [], None
        self._waiting.clear()
