"""A canary: which new sessions go to the new version, and when its faults call it off.

Pure: the clock is passed in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from .spec import Positive, Spec

_GOLDEN = 0x9E3779B97F4A7C15
_FULL = 1 << 64
_BUCKETS = 60

Share = Annotated[float, Field(ge=0, le=1)]


class CanarySpec(Spec):
    """How a canary goes: `share` of new sessions, 0..1.

    It is called off when more than `max_fault_rate` of the runs that ended in the last `window_s`
    failed, once there are `min_runs`; 1 never calls it off.
    """

    share: Share = 0.1
    max_fault_rate: Share = 0.05
    min_runs: Positive = 20
    window_s: float = Field(default=600.0, gt=0)


class Turns:
    """Says whose turn it is, so that any stretch of turns holds its share as nearly as can be.

    Multiples of the golden ratio modulo 1 (Weyl 1916) fall evenly, also on every second or third
    turn: kinds of requests that alternate don't all end up on one side, as counting off would do.
    """

    def __init__(self) -> None:
        self._at = 0

    def take(self, share: float) -> bool:
        """Whether the next turn belongs to a share of 0..1."""
        self._at = (self._at + _GOLDEN) % _FULL
        return self._at < share * _FULL


@dataclass(slots=True)
class _Bucket:
    start_s: float
    runs: int = 0
    faults: int = 0


class FaultRate:
    """Runs that ended in the last `window_s` and how many of them failed, to a sixtieth of it."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._buckets: deque[_Bucket] = deque()

    def add(self, now_s: float, *, fault: bool) -> None:
        """A run has ended."""
        self._forget(now_s)
        width_s = self._window_s / _BUCKETS
        if not self._buckets or now_s - self._buckets[-1].start_s >= width_s:
            self._buckets.append(_Bucket(now_s))
        self._buckets[-1].runs += 1
        self._buckets[-1].faults += fault

    def counts(self, now_s: float) -> tuple[int, int]:
        """Runs and faults."""
        self._forget(now_s)
        return sum(one.runs for one in self._buckets), sum(one.faults for one in self._buckets)

    def _forget(self, now_s: float) -> None:
        while self._buckets and self._buckets[0].start_s <= now_s - self._window_s:
            self._buckets.popleft()


class Canary:
    """A canary under way."""

    def __init__(self, spec: CanarySpec) -> None:
        self.spec = spec
        self.share = spec.share
        self._turns = Turns()
        self._rate = FaultRate(spec.window_s)

    def takes(self) -> bool:
        """Whether the next session is its."""
        return self._turns.take(self.share)

    def ended(self, now_s: float, *, fault: bool) -> None:
        """One of its runs has ended."""
        self._rate.add(now_s, fault=fault)

    def verdict(self, now_s: float) -> str | None:
        """Why it has to be called off; None while it may go on."""
        runs, faults = self._rate.counts(now_s)
        if runs < self.spec.min_runs or faults <= self.spec.max_fault_rate * runs:
            return None
        return (
            f"{faults} of {runs} runs failed ({faults / runs:.1%},"
            f" allowed {self.spec.max_fault_rate:.1%})"
        )
