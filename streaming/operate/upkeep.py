"""Tasks that a server can't do without: each is watched, begun again when it ends, and known to
be down meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NoReturn

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

log = logging.getLogger("motet.upkeep")

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 10.0
STEADY_S = 60.0
"""After so long without a failure, the waits begin at the first again."""


class Part:
    """One task: whether it is up, why not, and how long until it is tried again. The clock, in
    seconds, is passed in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reason: str | None = None
        self.restarts = 0
        self._down_since_s: float | None = None
        self._up_since_s: float | None = None
        self._failures = 0

    @property
    def is_up(self) -> bool:
        """Whether it does its work, as far as is known."""
        return self.reason is None

    def down_s(self, now_s: float) -> float:
        """How long it has been down; 0 while it is up."""
        return 0.0 if self._down_since_s is None else now_s - self._down_since_s

    def failed(self, reason: str, now_s: float) -> bool:
        """It doesn't work; whether that, or the reason, is new."""
        new = reason != self.reason
        self.reason = reason
        self._down_since_s = now_s if self._down_since_s is None else self._down_since_s
        if self._up_since_s is not None and now_s - self._up_since_s > STEADY_S:
            self._failures = 0
        self._up_since_s = None
        return new

    def works(self, now_s: float) -> bool:
        """It does its work; whether that is new."""
        new = self.reason is not None
        self.reason = self._down_since_s = None
        self._up_since_s = now_s if self._up_since_s is None else self._up_since_s
        return new

    def again_s(self) -> float:
        """How long to wait before it is begun again: each time twice as long."""
        self.restarts += 1
        self._failures += 1
        return min(FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 16), LONGEST_WAIT_S)


class Watch:
    """What a task tells of itself while it runs."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def works(self) -> None:
        """The task does its work. Until it first says so after a failure, it counts as down."""
        now_s = time.monotonic()
        took_s = self._part.down_s(now_s)
        if self._part.works(now_s):
            log.warning("%s works again, after %.1f s", self._part.name, took_s)

    def failed(self, reason: str) -> None:
        """The task is about to end, or doesn't get on, for this reason."""
        if self._part.failed(reason, time.monotonic()):
            log.error("%s is down: %s", self._part.name, reason)


Run = Callable[[Watch], Awaitable[None]]


class Upkeep(Collector):
    """All such tasks of a server, for readiness, `motet status` and Prometheus."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    @property
    def down(self) -> list[str]:
        """The names of those that don't work now."""
        return [part.name for part in self.parts.values() if not part.is_up]

    def status(self) -> list[dict[str, Any]]:
        """Each task: whether it is up, else why not and for how long; how often it began again."""
        now_s = time.monotonic()
        return [
            {
                "name": part.name,
                "up": part.is_up,
                "reason": part.reason,
                "down_s": round(part.down_s(now_s), 1),
                "restarts": part.restarts,
            }
            for part in self.parts.values()
        ]

    async def keep(
        self, name: str, run: Run, *, mend: Callable[[], Awaitable[None]] | None = None
    ) -> NoReturn:
        """Run a task over and over, until cancelled. An error that ends it is logged in a line, and
        after a wait it begins again, behind `mend`. So it does when it just returns."""
        part = self.parts[name] = Part(name)
        watch = Watch(part)
        task = asyncio.current_task()
        try:
            while True:
                # A cancellation may be lost within (`asyncio.wait_for` before Python 3.12).
                if task is not None and task.cancelling():
                    raise asyncio.CancelledError
                try:
                    if mend is not None and part.restarts:
                        await mend()
                    await run(watch)
                    watch.failed(part.reason or "it ended by itself")
                except Exception as error:
                    watch.failed(said(error))
                await asyncio.sleep(part.again_s())
        finally:
            self.parts.pop(name, None)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: the labels follow the tasks."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Which tasks are up, and how often each was begun again."""
        up = GaugeMetricFamily("motet_task_up", "Whether it works", labels=["task"])
        restarts = CounterMetricFamily("motet_task_restarts", "Begun again", labels=["task"])
        for part in self.parts.values():
            up.add_metric([part.name], float(part.is_up))
            restarts.add_metric([part.name], part.restarts)
        return [up, restarts]


def said(error: BaseException) -> str:
    """An error in one line; the one within, or the one that caused it, where there is one."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())  # of a task group
    within = inner[0] if inner else error.__cause__
    if within is not None:
        return said(within)
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")[:500]
