"""How many replicas a component needs: one policy, pure, for every runtime and for the planner.

From the five settings of `Scale` and what is observed (runs active and waiting, and how busy the
engines say they are). Up at once and ahead of a rising load; down only when the whole of
`scale_down_delay_s` needed less, so neither a step nor a sawtooth makes it flap.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .spec import Scale

BUSY = 0.8
"""The utilisation above which more replicas are wanted, where a component reports it."""

OVERSHOOT = 1.25
"""How far a forecast may exceed the highest load just seen."""

State = Literal["starting", "ready", "draining"]


@dataclass(slots=True)
class Replica:
    """A replica as policy and router see it; `sessions` are the runs on it now, `elsewhere` those
    that others than this process have there.

    `drain_by_s` is when a draining one is stopped whatever still runs on it. A `silent` one has not
    been heard for a while, and may be stuck.
    """

    id: str
    state: State = "starting"
    sessions: int = 0
    started_s: float = 0.0
    drain_by_s: float = math.inf
    version: str = "1"
    elsewhere: int = 0
    silent: bool = False

    @property
    def load(self) -> int:
        """All runs on it."""
        return self.sessions + self.elsewhere


@dataclass(frozen=True, slots=True)
class Actions:
    """What to do now: start so many, take these back from draining, drain and stop those."""

    start: int = 0
    revive: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()


class Scaler:
    """Remembers the load over the window and says how many replicas are needed. Pure: no clock.

    `concurrency` is how many runs a replica serves at once.
    """

    def __init__(self, settings: Scale, concurrency: int) -> None:
        self.settings = settings
        self.concurrency = concurrency
        self._loads: deque[tuple[float, float]] = deque()
        self._needs: deque[tuple[float, int]] = deque()

    def observe(self, now_s: float, load: float, *, busy_replicas: float = 0.0) -> None:
        """Note the load: runs active plus runs waiting, from now on until the next observation.

        `busy_replicas` is the sum of the replicas' utilisations, 0 where they don't say.
        """
        self._loads.append((now_s, load))
        start_s = now_s - self.settings.window_s
        while len(self._loads) > 1 and self._loads[1][0] <= start_s:
            self._loads.popleft()
        need = max(self._need(now_s), math.ceil(busy_replicas / BUSY - 1e-9))
        while self._needs and self._needs[-1][1] <= need:
            self._needs.pop()
        self._needs.append((now_s, need))

    def _need(self, now_s: float) -> int:
        """Replicas for the load that is coming: what it is, plus how much it grew lately."""
        lately_s = self.settings.window_s / 4
        recent = self._average(now_s, lately_s)
        growth = max(0.0, recent - self._average(now_s, self.settings.window_s))
        seen = max(load for at_s, load in self._loads if at_s >= now_s - lately_s)
        forecast = min(recent + growth, max(recent, seen * OVERSHOOT))
        waking = 1 if self._loads[-1][1] > 0 else 0
        return max(waking, math.ceil(forecast / self.concurrency - 1e-9))

    def _average(self, now_s: float, window_s: float) -> float:
        """The mean load over the window, each observation weighted by how long it held."""
        start_s, until_s, total, weight = now_s - window_s, now_s, 0.0, 0.0
        for at_s, load in reversed(self._loads):
            held_s = max(0.0, until_s - max(at_s, start_s))
            total, weight = total + load * held_s, weight + held_s
            until_s = at_s
            if at_s <= start_s:
                break
        return total / weight if weight > 0 else float(self._loads[-1][1])

    def desired(self, now_s: float, current: int) -> int:
        """How many replicas there should be, at most one step from `current`.

        A step up at most doubles (but may add four), a step down at most halves.
        """
        cutoff_s = now_s - self.settings.scale_down_delay_s
        while len(self._needs) > 1 and self._needs[0][0] < cutoff_s:
            self._needs.popleft()
        wanted = self._needs[0][1] if self._needs else 0
        wanted = min(max(wanted, self.settings.min_replicas), self.settings.max_replicas)
        lowest = max(current - max(1, current // 2), self.settings.min_replicas)
        highest = max(2 * current, current + 4)
        return min(max(wanted, lowest), highest, self.settings.max_replicas)


def actions(replicas: Iterable[Replica], desired: int, now_s: float) -> Actions:
    """How to get from these replicas to `desired` serving ones.

    Draining replicas are taken back before new ones start. Victims are those with the fewest
    sessions; a draining one stops when it has none left, or at its deadline.
    """
    everyone = list(replicas)
    serving = [one for one in everyone if one.state in ("starting", "ready")]
    draining = [one for one in everyone if one.state == "draining"]
    missing = desired - len(serving)
    revive: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    if missing > 0:
        in_time = [one for one in draining if one.drain_by_s > now_s]
        busiest = sorted(in_time, key=lambda one: -one.sessions)
        revive = tuple(one.id for one in busiest[:missing])
    elif missing < 0:
        drain = tuple(one.id for one in victims(serving, -missing))
    over = tuple(
        one.id
        for one in draining
        if one.id not in revive and (one.sessions == 0 or one.drain_by_s <= now_s)
    )
    return Actions(max(0, missing - len(revive)), revive, drain, over)


def victims(serving: Iterable[Replica], count: int) -> list[Replica]:
    """The replicas whose end costs least: still starting, then fewest sessions, then youngest."""
    order = sorted(
        serving, key=lambda one: (one.state == "ready", one.sessions, -one.started_s, one.id)
    )
    return order[:count]
