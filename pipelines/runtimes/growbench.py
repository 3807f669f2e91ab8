"""Replicas that come and go under open conversations, and what these notice of it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...components.frames import Audio, Data, Fault, TextInput
from ..pipeline import Pipeline
from ..session import Session
from .hopbench import CHUNK_S

SAMPLES = 320
PATIENCE_S = 120.0
TAIL_S = 1.0
"""What was said last comes back by then."""


class Talk:
    """One conversation: a second of speech, a second of silence, and so on; every chunk comes back.

    `home` is the process that answered the last question.
    """

    def __init__(self) -> None:
        self.sent = self.heard = 0
        self.fault: Fault | None = None
        self.longest_s = 0.0
        self.home = 0
        self._session: Session | None = None
        self._answer = asyncio.Event()
        self._over = False

    async def run(self, pipeline: Pipeline) -> None:
        """Until told to stop."""
        async with pipeline.session() as session:
            self._session = session
            listening = asyncio.create_task(self._listen(session), name="listens")
            await session.send(TextInput("who are you?"))
            await self.answered()
            await self._speak(session)
            await asyncio.sleep(TAIL_S)
        await listening

    async def answered(self) -> int:
        """Wait for the answer to the last question: the process."""
        async with asyncio.timeout(PATIENCE_S):
            await self._answer.wait()
        return self.home

    async def ask(self) -> int:
        """The process that serves it now."""
        self._answer.clear()
        if self._session is not None and self.fault is None:
            await self._session.send(TextInput("who are you?"))
            return await self.answered()
        return 0

    def stop(self) -> None:
        """Say no more; what was said still comes back."""
        self._over = True

    @property
    def well(self) -> bool:
        """Once over: whether all that was said came back, in order, without a fault."""
        return self.fault is None and self.heard == self.sent > 0

    async def _speak(self, session: Session) -> None:
        begin_s = time.perf_counter()
        while not self._over:
            voiced = self.sent // 50 % 2 == 0
            chunk = Audio(np.zeros(SAMPLES, np.int16), 16_000, self.sent * 20.0, 0.9 * voiced)
            await session.send(chunk)
            self.sent += 1
            due_s = begin_s + self.sent * CHUNK_S
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))

    async def _listen(self, session: Session) -> None:
        last_s = 0.0
        async for _, _, frame in session:
            if isinstance(frame, Fault):
                self.fault = frame
            if isinstance(frame, Data):
                self.home = frame.value[0]
            if isinstance(frame, Data | Fault):
                self._answer.set()
            elif isinstance(frame, Audio) and frame.start_ms == self.heard * 20.0:
                now_s = time.perf_counter()
                self.longest_s = max(self.longest_s, now_s - (last_s or now_s))
                self.heard, last_s = self.heard + 1, now_s


@dataclass(frozen=True, slots=True)
class Growth:
    """How replicas came and one went under open conversations. `longest_ms` is the longest that
    one of those that stayed waited for its next chunk.
    """

    runtime: str
    conversations: int
    replicas: int
    grew_s: float
    shrank_s: float
    stayed: int
    well: int
    moved: int
    longest_ms: float

    def line(self) -> str:
        """In words."""
        return (
            f"{self.runtime}: {self.conversations} conversations had {self.replicas} replicas"
            f" after {self.grew_s:.1f} s; {self.conversations - self.stayed} ended, and a replica"
            f" was gone after {self.shrank_s:.1f} s; {self.well} of the {self.stayed} that stayed"
            f" lost nothing, {self.moved} of them moved, the longest pause was"
            f" {self.longest_ms:.0f} ms"
        )


async def grow_and_shrink(
    runtime: str, pipeline: Pipeline, *, node: str, conversations: int, stay: int = 2
) -> Growth:
    """Open conversations at a node that echoes audio and answers a text with its process, keep
    `stay` of them on each replica, and wait until one of the replicas is gone.

    Raises:
        TimeoutError: it doesn't grow, or doesn't shrink.
    """
    talks = [Talk() for _ in range(conversations)]
    async with asyncio.TaskGroup() as group:
        began_s = time.monotonic()
        for talk in talks:
            group.create_task(talk.run(pipeline))
        homes: defaultdict[int, list[Talk]] = defaultdict(list)
        for talk in talks:
            homes[await talk.answered()].append(talk)
        grew_s = time.monotonic() - began_s
        await _until(lambda: replicas(pipeline, node) == len(homes))
        kept = [talk for here in homes.values() for talk in here[:stay]]
        for talk in set(talks) - set(kept):
            talk.stop()
        began_s = time.monotonic()
        await _until(lambda: replicas(pipeline, node) < len(homes))
        shrank_s = time.monotonic() - began_s
        before = [talk.home for talk in kept]
        after = [await talk.ask() for talk in kept]
        for talk in kept:
            talk.stop()
    return Growth(
        runtime=runtime,
        conversations=len(talks),
        replicas=len(homes),
        grew_s=grew_s,
        shrank_s=shrank_s,
        stayed=len(kept),
        well=sum(talk.well for talk in kept),
        moved=sum(old != new for old, new in zip(before, after, strict=True)),
        longest_ms=max(talk.longest_s for talk in kept) * 1e3,
    )


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is awaited is other processes' work
            await asyncio.sleep(0.1)


def replicas(pipeline: Pipeline, node: str) -> int:
    """The replicas that a node has, those that drain too."""
    return next(len(one.replicas) for one in pipeline.runtime.status() if one.node == node)
