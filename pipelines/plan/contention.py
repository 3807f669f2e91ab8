"""Runs that share a replica: how much the number of them slows each, and when each is done."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .agenda import Agenda
from .profile import NodeProfile, Run

FEW = 0.05
"""The share of all runs below which those measured at about one number are left out: too few."""


class Slowdown:
    """How many times longer than alone something takes, by how many do it at once; `in_order`, how
    many times longer than alone the one whose turn it is takes.

    Known at ascending `levels` from mean times; between them it is interpolated, beyond the
    highest it grows on as between the highest two. It never falls with the number.
    """

    def __init__(
        self,
        levels: Sequence[float],
        means_s: Sequence[float],
        most: int,
        *,
        in_order: bool = False,
    ) -> None:
        known = np.maximum.accumulate(means_s)
        counts = np.arange(1, most + 1)
        times = np.interp(counts, levels, known)
        if len(levels) > 1:
            slope = (known[-1] - known[-2]) / (levels[-1] - levels[-2])
            times += slope * np.maximum(0.0, counts - levels[-1])
        alone_s = times[0] or 1.0
        self._known = [float(max(1.0, one / alone_s)) for one in known]
        self._by_count = [float(max(1.0, one / alone_s)) for one in times]
        if in_order:
            # So many of them pass while one waits for all of them.
            self._by_count = [one / count for count, one in enumerate(self._by_count, 1)]

    def at_level(self, index: int) -> float:
        """The factor at a measured level."""
        return self._known[index]

    def of(self, active: int) -> float:
        """The factor with so many at once, 1 to `most`."""
        return self._by_count[active - 1]


class Pace:
    """How long a node's runs take by the number that its replica serves, from measured ones:
    `first` slows the way to the first output, `rest` that from there to the end.

    `in_order` both are pieces that wait for their turn, behind what others began before."""

    def __init__(self, measured: NodeProfile, most: int) -> None:
        self.in_order = measured.in_order
        groups = by_active(measured.runs)
        self._samples = [by_sample(group) for group in groups]
        self._levels = [statistics.fmean(run.active for run in group) for group in groups]
        if self.in_order:
            busy_s = [statistics.fmean(run.busy_s for run in group) for group in groups]
            self.first = self.rest = Slowdown(self._levels, busy_s, most, in_order=True)
        else:
            first_s = [statistics.fmean(run.first_s for run in group) for group in groups]
            rest_s = [sum(map(_rest_s, group)) / sum(map(_outputs, group)) for group in groups]
            self.first = Slowdown(self._levels, first_s, most)
            self.rest = Slowdown(self._levels, rest_s, most)
        self._cores = _busy_cores(self._levels, [_cores(group) for group in groups], most)

    def cores(self, active: int) -> float:
        """How many cores the replica keeps busy with so many runs, 0 to `most`."""
        return self._cores[active]

    def draw(self, active: int, chance: random.Random, sample: int = 0) -> tuple[float, float]:
        """The way to the first output and the rest of a run that begins as one of `active`, in
        the seconds that it would take alone: one that was measured at about that number (alone,
        where runs wait for their turn anyhow), on that sample if there are any."""
        about = 1 if self.in_order else active
        index = min(range(len(self._levels)), key=lambda at: abs(self._levels[at] - about))
        samples = self._samples[index]
        runs = samples.get(sample) or [run for one in samples.values() for run in one]
        run = chance.choice(runs)
        return (
            run.first_s / self.first.at_level(index),
            _rest_s(run) / self.rest.at_level(index),
        )


def _rest_s(run: Run) -> float:
    return max(0.0, run.busy_s - run.first_s)


def _outputs(run: Run) -> int:
    """What the rest of a run is measured by: one that answers at length isn't a slow one."""
    return max(1, run.outputs - 1)


def _cores(runs: Sequence[Run]) -> float:
    """The cores that runs keep busy which go on at once."""
    busy_s = sum(run.busy_s for run in runs)
    active = statistics.fmean(run.active for run in runs)
    return active * sum(run.cpu_s for run in runs) / busy_s if busy_s else 0.0


def _busy_cores(levels: Sequence[float], cores: Sequence[float], most: int) -> list[float]:
    """The cores that 0 to `most` runs keep busy, known at ascending levels; beyond the highest as
    many more as between the highest two."""
    levels, cores = [0.0, *levels], [0.0, *cores]
    counts = np.arange(most + 1)
    slope = max(0.0, (cores[-1] - cores[-2]) / (levels[-1] - levels[-2]))
    more = slope * np.maximum(0.0, counts - levels[-1])
    return [float(one) for one in np.interp(counts, levels, cores) + more]


def by_active(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs that were among about as many, together (within a factor of about 1.4), fewest first;
    without numbers that only a few were measured at."""
    found: dict[int, list[Run]] = {}
    for run in runs:
        found.setdefault(round(2 * math.log2(run.active)), []).append(run)
    enough = FEW * sum(map(len, found.values()))
    return [found[key] for key in sorted(found) if len(found[key]) >= enough]


def by_sample(runs: Iterable[Run]) -> dict[int, list[Run]]:
    """Runs on the same sample together."""
    found: dict[int, list[Run]] = {}
    for run in runs:
        found.setdefault(run.sample, []).append(run)
    return found


class Strand:
    """Work that goes on at once, all of it equally slowed by a factor that changes; or `in_order`,
    one piece after the other.

    Processor sharing by one virtual clock, on which the end of a piece never moves.
    """

    def __init__(self, agenda: Agenda, *, in_order: bool = False) -> None:
        self._agenda = agenda
        self._in_order = in_order
        self._last_s = 0.0
        self._slowed = 1.0
        self._virtual_s = self._noted_s = 0.0
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._armed = 0

    def add(self, alone_s: float, then: Callable[[], None]) -> None:
        """Begin a piece that takes `alone_s` if nothing slows it; `then` when it is done."""
        self._advance()
        begins_s = max(self._virtual_s, self._last_s if self._in_order else 0.0)
        self._last_s = begins_s + alone_s
        heapq.heappush(self._ends, (self._last_s, next(self._order), then))
        self._arm()

    def slow(self, factor: float) -> None:
        """From now on everything takes `factor` times as long as alone."""
        if factor != self._slowed:
            self._advance()
            self._slowed = factor
            self._arm()

    def _advance(self) -> None:
        now_s = self._agenda.now_s
        self._virtual_s += (now_s - self._noted_s) / self._slowed
        self._noted_s = now_s

    def _arm(self) -> None:
        """See to the next end, in place of what was the next one until now."""
        self._armed += 1
        if self._ends:
            left_s = (self._ends[0][0] - self._virtual_s) * self._slowed
            armed = self._armed
            self._agenda.at(self._agenda.now_s + left_s, lambda: self._end(armed))

    def _end(self, armed: int) -> None:
        if armed != self._armed:
            return
        ends_s, _, then = heapq.heappop(self._ends)
        self._virtual_s, self._noted_s = ends_s, self._agenda.now_s
        self._arm()
        then()
