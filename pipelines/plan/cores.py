"""Machines whose cores the replicas on them share, in a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """Where replicas go: machines of `cores` cores, `machines` of them at most (None: as many as
    are needed); `cpus` is what a replica of each node claims of its machine (not said: nothing)."""

    cores: float = math.inf
    machines: int | None = None
    cpus: dict[str, float] | None = None


@dataclass(slots=True, eq=False)
class _Tenant:
    machine: int
    claims: float
    wants: float = 0.0
    factor: float = 1.0
    slowed: Callable[[float], None] | None = None


class Machines:
    """Machines of a `Room` and the replicas on them.

    Cores are shared as a fair scheduler of threads does (see `shares`), all the time: a replica
    that wants `d` cores and gets `a` is told that it is slowed `d / a` times. So no work is lost,
    and where there are cores enough nobody is slowed.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._tenants: dict[str, _Tenant] = {}
        self._machines: list[list[_Tenant]] = []

    def place(self, replica: str, cpus: float) -> None:
        """Give a new replica its machine: the first whose cores aren't claimed yet, else a new
        one, else that of which the least is claimed."""
        claimed = [sum(one.claims for one in tenants) for tenants in self._machines]
        fits = (at for at, so_far in enumerate(claimed) if so_far + cpus <= self._room.cores + 1e-9)
        machine = next(fits, None)
        if machine is None:
            most = self._room.machines
            if most is None or len(self._machines) < most:
                self._machines.append([])
                machine = len(self._machines) - 1
            else:
                machine = min(range(len(claimed)), key=claimed.__getitem__)
        tenant = self._tenants[replica] = _Tenant(machine, cpus)
        self._machines[machine].append(tenant)

    def remove(self, replica: str) -> None:
        """A replica is gone; the others get its cores."""
        tenant = self._tenants.pop(replica, None)
        if tenant is not None:
            self._machines[tenant.machine].remove(tenant)
            self._share(tenant.machine)

    def want(
        self, replica: str, cores: float, slowed: Callable[[float], None] | None = None
    ) -> None:
        """From now on a replica keeps so many cores busy, if it gets them; `slowed` is told how
        many times longer everything there takes, now and whenever that changes."""
        tenant = self._tenants.get(replica)
        if tenant is not None and (tenant.wants, tenant.slowed) != (cores, slowed):
            tenant.wants, tenant.slowed = cores, slowed
            self._share(tenant.machine)

    def _share(self, machine: int) -> None:
        busy = [one for one in self._machines[machine] if one.wants > 0]
        given = shares([one.wants for one in busy], self._room.cores)
        for one, cores in zip(busy, given, strict=True):
            factor = one.wants / cores
            if factor != one.factor:
                one.factor = factor
                if one.slowed is not None:
                    one.slowed(factor)


def shares(wants: Sequence[float], cores: float) -> list[float]:
    """How many of the cores each gets that wants so many: all that it wants where that is less
    than what the others of its size get, the rest evenly (max-min fairness by water-filling).

    One that wants more than a core has as many threads, and weighs as much as those.
    """
    given = [0.0] * len(wants)
    weights = [max(1.0, one) for one in wants]
    left, weight = cores, sum(weights)
    for at in sorted(range(len(wants)), key=lambda at: wants[at] / weights[at]):
        given[at] = min(wants[at], left * weights[at] / weight)
        left, weight = left - given[at], weight - weights[at]
    return given
