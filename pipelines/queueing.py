"""Runs that wait for a place: in order, fair between keys, weighted by priority, bounded, in time.

Pure: the clock is passed in. The runtimes and the planner use the same queue.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..components.errors import DeadlineExceeded, Overloaded
from .spec import Queue

Item = TypeVar("Item")
MOST_LEVEL = 8
"""Priorities above this, and below its negative, wait as these do: weights must stay numbers."""

WEIGHT = 4.0
"""How many runs of a priority are served for each one of the priority below it."""


@dataclass(slots=True)
class _Flow(Generic[Item]):
    """Runs of one key and priority, in order. `tag` is when its next turn ends, in virtual time."""

    tag: float
    items: deque[tuple[float, Item]] = field(default_factory=deque[tuple[float, Item]])


@dataclass(slots=True)
class _Class(Generic[Item]):
    """All flows of one priority. `tag` is when its next turn begins, in virtual time; `now` is the
    virtual time of its flows."""

    tag: float = 0.0
    now: float = 0.0
    flows: dict[str, _Flow[Item]] = field(default_factory=dict[str, _Flow[Item]])


class WorkQueue(Generic[Item]):
    """Holds at most `settings.bound` runs. Keys share a priority evenly, whoever floods it.

    With order "fifo", priorities count as one. With "priority", each gets `WEIGHT` times the turns
    of the one below it, so that the lowest is slow, never starved (start-time fair queueing, Goyal,
    Vin and Cheng 1996). Keys take equal turns; one that comes anew is behind those in the present
    round (self-clocked, Golestani 1994), so that nothing need be kept of those that are gone.
    """

    def __init__(self, settings: Queue, *, where: str = "") -> None:
        self._settings = settings
        self._where = where
        self._classes: dict[int, _Class[Item]] = {}
        self._now = 0.0
        self._count = 0
        self.refused = 0

    def __len__(self) -> int:
        return self._count

    def push(
        self,
        item: Item,
        *,
        now_s: float,
        expected_wait_s: float,
        key: str = "",
        priority: int = 0,
        deadline_s: float | None = None,
    ) -> None:
        """Add a run.

        Raises:
            Overloaded: the queue is full, or the wait would be longer than allowed; it says when
                to come again.
            DeadlineExceeded: the run can't begin before its deadline.
        """
        if self._count >= self._settings.bound:
            self._refuse(f"{self._count} runs wait already", expected_wait_s)
        if expected_wait_s > self._settings.max_wait_s:
            self._refuse(f"the wait would be about {expected_wait_s:.1f} s", expected_wait_s)
        if deadline_s is not None and now_s + expected_wait_s >= deadline_s:
            self.refused += 1
            raise DeadlineExceeded(
                f"{max(0.0, deadline_s - now_s):.3f} s are left, the wait alone is about"
                f" {expected_wait_s:.3f} s",
                where=self._where,
            )
        self._flow(priority, key).items.append((now_s, item))
        self._count += 1

    def _refuse(self, why: str, expected_wait_s: float) -> None:
        self.refused += 1
        retry_after_s = max(1.0, expected_wait_s)
        raise Overloaded(why, where=self._where, retry_after_s=retry_after_s)

    def _flow(self, priority: int, key: str) -> _Flow[Item]:
        level = max(-MOST_LEVEL, min(MOST_LEVEL, priority))
        level = level if self._settings.order == "priority" else 0
        group = self._classes.setdefault(level, _Class())
        if not group.flows:
            group.tag = max(group.tag, self._now)
        flow = group.flows.get(key)
        if flow is None:
            flow = group.flows[key] = _Flow(group.now + 1.0)
        return flow

    def pop(self) -> Item | None:
        """The run that begins next; None when nothing waits."""
        waiting = [level for level, group in self._classes.items() if group.flows]
        if not waiting:
            return None
        level = min(waiting, key=lambda one: (self._classes[one].tag, -one))
        group = self._classes[level]
        key = min(group.flows, key=lambda one: (group.flows[one].tag, group.flows[one].items[0][0]))
        flow = group.flows[key]
        _, item = flow.items.popleft()
        self._now, group.now = group.tag, flow.tag
        group.tag += WEIGHT**-level
        flow.tag += 1.0
        if not flow.items:
            del group.flows[key]
        self._count -= 1
        return item

    def remove(self, item: Item) -> bool:
        """Take a run out that is given up; False if it doesn't wait here."""
        for group in self._classes.values():
            for key, flow in group.flows.items():
                for place, (_, waiting) in enumerate(flow.items):
                    if waiting is item:
                        del flow.items[place]
                        self._count -= 1
                        if not flow.items:
                            del group.flows[key]
                        return True
        return False


class WaitEstimate:
    """How long a run will wait, from how long runs have taken lately."""

    def __init__(self) -> None:
        self.service_s = 0.0
        self._seen = 0

    def finished(self, service_s: float) -> None:
        """A run took so long; recent runs count more."""
        self._seen += 1
        share = max(1 / self._seen, 0.1)
        self.service_s += share * (service_s - self.service_s)

    def wait_s(self, ahead: int, places: int) -> float:
        """Expected wait behind `ahead` waiting runs when `places` runs are served at once."""
        return (ahead + 1) * self.service_s / max(1, places)
