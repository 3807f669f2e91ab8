"""What a plan is made from: arrivals through a day, machines and their prices."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...components.errors import Flaw, SpecError
from ..spec import flaws_of

Amount = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session begins; a request is a session of one turn without a length."""

    at_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class Habits:
    """How sessions go: their mean length, and the mean time from one turn's end to the next.

    Where a pipeline takes requests, sessions are callers, who ask every `think_s` on average.
    """

    session_s: float = 180.0
    think_s: float = 6.0
    seed: int = 0

    def pauses(self, session: int) -> Iterator[float]:
        """The times before each turn of a session, by its number: exponential, and the same
        wherever the same session is simulated or served."""
        chance = random.Random(f"{self.seed} {session}")
        while True:
            yield chance.expovariate(1 / self.think_s)


class Machine(BaseModel):
    """A machine that can be rented: its size, and its price for an hour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per_hour: Amount
    cpus: Annotated[float, Field(gt=0)]
    gpus: Annotated[int, Field(ge=0)] = 0
    memory_gb: Amount = 0.0


class Prices(BaseModel):
    """A price file: machines by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = "EUR"
    machines: Annotated[dict[str, Machine], Field(min_length=1)]

    @property
    def free(self) -> bool:
        """Whether none of the machines costs anything, as where nobody has said what they cost."""
        return not any(machine.per_hour for machine in self.machines.values())

    @staticmethod
    def load(path: Path) -> Prices:
        """Read a price file.

        Raises:
            SpecError: it can't be read, or isn't one; with every fault.
        """
        try:
            return Prices.model_validate(yaml.safe_load(path.read_text()))
        except (OSError, yaml.YAMLError) as error:
            raise SpecError([Flaw("", str(error))], file=str(path)) from error
        except ValidationError as error:
            raise SpecError(flaws_of(error), file=str(path)) from error


def read_arrivals(
    path: Path,
    *,
    peak_sessions: int | None,
    habits: Habits,
    seed: int = 0,
    requests: bool = False,
) -> tuple[list[Arrival], float]:
    """The arrivals of a trace, and how long it lasts in seconds.

    A CSV file with a header: `time_s,length_s` lists sessions one by one; `time_s,sessions` gives
    how many run at a time, from which arrivals are drawn (see `drawn`), scaled so that its peak is
    `peak_sessions`.

    Raises:
        SpecError: a column or number is wrong; with every line.
    """
    columns, rows = _rows(path)
    if columns == {"time_s", "length_s"}:
        found = [Arrival(row["time_s"], row["length_s"]) for row in rows]
        return sorted(found, key=lambda one: one.at_s), max(
            one.at_s + one.length_s for one in found
        )
    peak = max(row["sessions"] for row in rows) or 1.0
    scale = peak_sessions / peak if peak_sessions else 1.0
    levels = [(row["time_s"], row["sessions"] * scale) for row in rows]
    return list(drawn(levels, habits, seed, requests=requests)), levels[-1][0]


def _rows(path: Path) -> tuple[set[str], list[dict[str, float]]]:
    flaws: list[Flaw] = []
    rows: list[dict[str, float]] = []
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            columns = {name.strip() for name in reader.fieldnames or ()}
            if columns not in ({"time_s", "length_s"}, {"time_s", "sessions"}):
                wanted = "time_s,length_s or time_s,sessions"
                flaws.append(Flaw("", f"the header is {sorted(columns)}; possible: {wanted}", 1))
            for row in reader if not flaws else ():
                try:
                    rows.append({name.strip(): float(value) for name, value in row.items()})
                except (TypeError, ValueError):
                    flaws.append(Flaw("", f"{row} aren't numbers", reader.line_num))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        flaws.append(Flaw("", str(error)))
        columns = set[str]()
    if not rows and not flaws:
        flaws.append(Flaw("", "has no rows"))
    if flaws:
        raise SpecError(flaws, file=str(path))
    return columns, rows


def drawn(
    levels: list[tuple[float, float]], habits: Habits, seed: int, *, requests: bool = False
) -> Iterator[Arrival]:
    """Arrivals that keep about `levels` sessions running: (time in seconds, sessions), stepwise.

    Poisson; lengths are exponential, those of `requests` 0. Sessions of the first level run
    from the start.
    """
    rng = random.Random(seed)
    every_s = habits.think_s if requests else habits.session_s

    def arrival(at_s: float) -> Arrival:
        return Arrival(at_s, 0.0 if requests else rng.expovariate(1 / habits.session_s))

    steps = [*levels[1:], (levels[-1][0], 0.0)]
    for _ in range(0 if requests else round(levels[0][1])):
        yield arrival(levels[0][0])
    for (now_s, level), (end_s, _) in zip(levels, steps, strict=True):
        while level > 0:
            now_s += rng.expovariate(level / every_s)
            if now_s >= end_s:
                break
            yield arrival(now_s)


def steady(
    sessions: int, seconds: float, habits: Habits, seed: int = 0, *, requests: bool = False
) -> list[Arrival]:
    """Arrivals that keep about so many sessions running; see `drawn`."""
    levels = [(0.0, float(sessions)), (seconds, 0.0)]
    return list(drawn(levels, habits, seed, requests=requests))


def packed(needs: list[tuple[float, float]], prices: Prices) -> tuple[dict[str, int], float]:
    """How many machines carry replicas of these (cpus, gpus), and their price for an hour.

    Each is of the cheapest sort that can carry all those with a GPU, or all those without;
    first fit, largest first.

    Raises:
        SpecError: a replica fits no machine.
    """
    counts: dict[str, int] = {}
    total = 0.0
    for group in ([one for one in needs if one[1] > 0], [one for one in needs if one[1] <= 0]):
        if not group:
            continue
        options = [
            (count * machine.per_hour, name, count)
            for name, machine in prices.machines.items()
            if (count := _machines(group, machine)) is not None
        ]
        if not options:
            cpus, gpus = max(group, key=lambda one: (one[1], one[0]))
            flaw = Flaw("machines", f"none has {cpus:g} CPUs and {gpus:g} GPUs for one replica")
            raise SpecError([flaw], file="prices")
        cost, name, count = min(options)
        counts[name] = counts.get(name, 0) + count
        total += cost
    return counts, total


def _machines(group: list[tuple[float, float]], machine: Machine) -> int | None:
    free: list[list[float]] = []
    for cpus, gpus in sorted(group, key=lambda one: (-one[1], -one[0])):
        if cpus > machine.cpus or gpus > machine.gpus:
            return None
        for room in free:
            if room[0] >= cpus - 1e-9 and room[1] >= gpus - 1e-9:
                room[0] -= cpus
                room[1] -= gpus
                break
        else:
            free.append([machine.cpus - cpus, machine.gpus - gpus])
    return len(free)
