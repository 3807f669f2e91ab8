"""What a simulated replica does: the runs on it, at the pace that they and the machine allow."""

from __future__ import annotations

import random
from collections.abc import Callable

from .agenda import Agenda
from .contention import Pace, Strand
from .cores import Machines


class Work:
    """Runs of one replica on their way to their first outputs, and on from there to their ends.

    Whenever the number of those at work changes, all of them go on at the pace that was measured
    with that number; slower yet while the machine's cores don't suffice for all replicas on it.
    """

    def __init__(self, agenda: Agenda, pace: Pace, machines: Machines, replica: str) -> None:
        self._pace = pace
        self._machines = machines
        self._replica = replica
        self._first = Strand(agenda, in_order=pace.in_order)
        self._rest = self._first if pace.in_order else Strand(agenda)
        self._active = 0
        self._slowed = 1.0

    def begin(self, chance: random.Random, sample: int, then: Callable[[float], None]) -> None:
        """One more run is at work, on that sample; `then`, at its first output, is told the seconds
        of the rest if nothing slows it."""
        self._active += 1
        first_s, rest_s = self._pace.draw(self._active, chance, sample)
        self._repace()
        self._first.add(first_s, lambda: then(rest_s))

    def go_on(self, alone_s: float, then: Callable[[], None]) -> None:
        """A run goes on after its first output, by so much."""
        self._rest.add(alone_s, then)

    def end(self) -> None:
        """One run less is at work."""
        self._active -= 1
        self._repace()

    def _repace(self) -> None:
        self._machines.want(self._replica, self._pace.cores(self._active), self._slow)
        self._apply()

    def _slow(self, factor: float) -> None:
        self._slowed = factor
        self._apply()

    def _apply(self) -> None:
        if self._active:
            self._first.slow(self._pace.first.of(self._active) * self._slowed)
            self._rest.slow(self._pace.rest.of(self._active) * self._slowed)
