"""What happens when in a simulation, on a made clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Agenda:
    """Things to do by their time in seconds; those of one time are done in the order given."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, at_s: float, what: Callable[[], None]) -> None:
        """Do something then, or now if that is past."""
        heapq.heappush(self._events, (max(at_s, self.now_s), next(self._order), what))

    def run(self, until_s: float) -> None:
        """Do all that is due by `until_s`, and what follows from it by then."""
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, what = heapq.heappop(self._events)
            what()
