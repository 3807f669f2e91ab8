"""Measured service times of a graph's nodes: recorded around any runtime, kept as a JSON file."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..components.base import Context, closing
from ..components.errors import Flaw, SpecError
from ..components.frames import Frame
from .graph import Graph
from .runtimes.base import NodeStatus, Runtime
from .spec import flaws_of

MAX_SAMPLES = 2000
Seconds = Annotated[float, Field(ge=0)]


class Run(BaseModel):
    """One run of a component: how long to its first output, and how long it held its place.

    `active` is how many the replica served while it ran, on average, itself included.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    first_s: Seconds
    busy_s: Seconds
    active: Annotated[float, Field(ge=1)] = 1.0


class NodeProfile(BaseModel):
    """What was measured of one node.

    `in_order`: of runs that meet, the first has its first output as soon as if it were alone, and
    the others after it; else all of them have it late.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: list[Run] = Field(default_factory=list[Run])
    in_order: bool = False
    cold_start_s: Seconds = 0.0


class Profile(BaseModel):
    """A profile file: the nodes of a graph, and the machine they were measured on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: str = ""
    nodes: dict[str, NodeProfile]

    @staticmethod
    def load(path: Path) -> Profile:
        """Read a profile file.

        Raises:
            SpecError: it can't be read, or isn't one.
        """
        try:
            return Profile.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            message = "there is no such file; `motet bench profile PIPELINE --out FILE` makes one"
            raise SpecError([Flaw("", message)], file=str(path)) from error
        except OSError as error:
            raise SpecError([Flaw("", error.strerror or str(error))], file=str(path)) from error
        except ValidationError as error:
            raise SpecError(flaws_of(error), file=str(path)) from error

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        fresh = path.with_suffix(path.suffix + ".new")
        fresh.write_text(json.dumps(self.model_dump(), indent=1) + "\n")
        fresh.replace(path)


def ordered(profile: Profile, bursts: Sequence[Profile]) -> Profile:
    """The profile, with which nodes do in order the runs that begin at once in each of `bursts`:
    the first of them is then about as soon as one alone, while the last is not."""
    nodes = dict(profile.nodes)
    for name, node in profile.nodes.items():
        alone = [run.first_s for run in node.runs if round(run.active) == 1]
        firsts = [[run.first_s for run in one.nodes[name].runs] for one in bursts]
        if alone and firsts:
            alone_s = statistics.median(alone)
            soonest_s, latest_s = (statistics.median(map(end, firsts)) for end in (min, max))
            in_order = latest_s > 1.5 * alone_s and soonest_s < (alone_s + latest_s) / 2
            nodes[name] = node.model_copy(update={"in_order": in_order})
    return profile.model_copy(update={"nodes": nodes})


@dataclass(slots=True)
class _Notes:
    active: int = 0
    active_s: float = 0.0
    noted_s: float = 0.0
    runs: list[Run] = field(default_factory=list[Run])

    def change(self, by: int, now_s: float) -> float:
        """So many runs more are active; the seconds of all runs so far, added up."""
        self.active_s += self.active * (now_s - self.noted_s)
        self.active += by
        self.noted_s = now_s
        return self.active_s


class Recorded:
    """A runtime that notes how long every run takes; it does what the runtime inside it does.

    Each node is to have one replica: runs are counted by node.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._notes: dict[str, _Notes] = {}

    async def start(self) -> None:
        """Start the runtime inside."""
        await self._runtime.start()

    async def close(self) -> None:
        """Close the runtime inside."""
        await self._runtime.close()

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run and note the time to the first answer and to the end; failed runs aren't noted."""
        notes = self._notes.setdefault(node, _Notes())
        started_s = time.monotonic()
        first_s: float | None = None
        before_s = notes.change(1, started_s)
        try:
            async with closing(self._runtime.call(node, frames, context)) as answers:
                async for frame in answers:
                    if first_s is None:
                        first_s = time.monotonic() - started_s
                    yield frame
        finally:
            ended_s = time.monotonic()
            active_s = notes.change(-1, ended_s) - before_s
        busy_s = ended_s - started_s
        if len(notes.runs) < MAX_SAMPLES:
            active = max(1.0, active_s / busy_s) if busy_s else 1.0
            first_s = busy_s if first_s is None else first_s
            notes.runs.append(Run(first_s=first_s, busy_s=busy_s, active=active))

    def status(self) -> list[NodeStatus]:
        """What the runtime inside says."""
        return self._runtime.status()

    @property
    def ready(self) -> bool:
        """What the runtime inside says."""
        return self._runtime.ready

    def successor(self, graph: Graph, version: str, *, fresh: bool = False) -> Recorded:
        """The successor of the runtime inside, its runs noted with these."""
        made = Recorded(self._runtime.successor(graph, version, fresh=fresh))
        made._notes = self._notes
        return made

    def forget(self) -> None:
        """Drop the runs noted so far; for when none is active."""
        self._notes.clear()

    def profile(self, machine: str = "") -> Profile:
        """What was noted so far."""
        cold = {
            one.node: max((replica.started_s for replica in one.replicas), default=0.0)
            for one in self._runtime.status()
        }
        nodes = {
            node: NodeProfile(runs=notes.runs, cold_start_s=cold.get(node, 0.0))
            for node, notes in self._notes.items()
        }
        return Profile(machine=machine, nodes=nodes)
