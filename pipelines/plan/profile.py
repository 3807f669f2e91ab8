"""Measured service times of a graph's nodes: recorded around any runtime, kept as a JSON file."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...components.base import Context, closing
from ...components.errors import Flaw, SpecError
from ...components.frames import Frame
from ..graph import Graph
from ..runtimes.base import NodeStatus, Runtime
from ..spec import flaws_of

MAX_SAMPLES = 2000
Seconds = Annotated[float, Field(ge=0)]


class Run(BaseModel):
    """One run of a component: how long to its first output, and how long it held its place.

    `active` is how many the replica served while it ran, on average, itself included; `cpu_s` how
    long it kept a core busy, in all processes together (0: it only waits). `sample` is the number
    of what it was run on, `outputs` how many frames came of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    first_s: Seconds
    busy_s: Seconds
    active: Annotated[float, Field(ge=1)] = 1.0
    cpu_s: Seconds = 0.0
    sample: Annotated[int, Field(ge=0)] = 0
    outputs: Annotated[int, Field(ge=0)] = 1


class Need(BaseModel):
    """What a node took to begin in one whole turn: the share that had passed of the run before it,
    from that one's first output on, which lasted `rest_s` from there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rest_s: Seconds
    share: Annotated[float, Field(ge=0, le=1)]


class NodeProfile(BaseModel):
    """What was measured of one node.

    `in_order`: of runs that meet, the first has its first output as soon as if it were alone, and
    the others after it; else all of them have it late. `needs` is of each turn whose frames are a
    sample of this node; without any, it begins at once. `standing_cores` are kept busy by every
    session that stands there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: list[Run] = Field(default_factory=list[Run])
    in_order: bool = False
    needs: list[Need] = Field(default_factory=list[Need])
    standing_cores: Annotated[float, Field(ge=0)] = 0.0
    cold_start_s: Seconds = 0.0


class Profile(BaseModel):
    """A profile file: the nodes of a graph, and the machine they were measured on, with so many
    cores (0: not told). `samples` is how many the first node has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: str = ""
    cores: Annotated[float, Field(ge=0)] = 0.0
    samples: Annotated[int, Field(ge=1)] = 1
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


def ordered(runs: Sequence[Run], bursts: Sequence[Sequence[Run]]) -> bool:
    """Whether a node does in order the runs that begin at once in each of `bursts`: the first of
    them is then about as soon as one alone, of which there are some in `runs`, the last is not."""
    alone = [run.first_s for run in runs if round(run.active) == 1]
    if not alone or not bursts:
        return False
    alone_s = statistics.median(alone)
    firsts = [[run.first_s for run in one] for one in bursts]
    soonest_s, latest_s = (statistics.median(map(end, firsts)) for end in (min, max))
    return latest_s > 1.5 * alone_s and soonest_s < (alone_s + latest_s) / 2


def needs(before: Sequence[Run], whole: Sequence[Run], alone: Sequence[Run]) -> list[Need]:
    """What a node needs of the one `before` it: from the runs of both in `whole` turns, and from
    its runs `alone` on the frames of each turn, given all at once. Nothing is known of one that
    not every turn reached."""
    if len(before) != len(whole):
        return []
    found: list[Need] = []
    for turn, (giver, taker) in enumerate(zip(before, whole, strict=True)):
        own = [run for run in alone if run.sample == turn] or alone
        own_s = min(own, key=lambda run: run.active).first_s
        waited_s = max(0.0, taker.first_s - own_s)
        rest_s = giver.busy_s - giver.first_s
        found.append(Need(rest_s=rest_s, share=min(1.0, waited_s / rest_s) if rest_s else 0.0))
    return found


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

    Each node is to have one replica: runs are counted by node. `got` has the frames of every
    run of each node that turns pass, until they are forgotten.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.got: dict[str, list[list[Frame]]] = {}
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
        outputs = 0
        before_s = notes.change(1, started_s)
        try:
            noted = self._noted(node, frames) if context.turn else frames
            async with closing(self._runtime.call(node, noted, context)) as answers:
                async for frame in answers:
                    if first_s is None:
                        first_s = time.monotonic() - started_s
                    outputs += 1
                    yield frame
        finally:
            ended_s = time.monotonic()
            active_s = notes.change(-1, ended_s) - before_s
        busy_s = ended_s - started_s
        if len(notes.runs) < MAX_SAMPLES:
            active = max(1.0, active_s / busy_s) if busy_s else 1.0
            first_s = busy_s if first_s is None else first_s
            run = Run(first_s=first_s, busy_s=busy_s, active=active, outputs=outputs)
            notes.runs.append(run)

    async def _noted(self, node: str, frames: AsyncIterator[Frame]) -> AsyncIterator[Frame]:
        got: list[Frame] = []
        self.got.setdefault(node, []).append(got)
        async for frame in frames:
            got.append(frame)
            yield frame

    def status(self) -> list[NodeStatus]:
        """What the runtime inside says."""
        return self._runtime.status()

    @property
    def ready(self) -> bool:
        """What the runtime inside says."""
        return self._runtime.ready

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> Recorded:
        """The successor of the runtime inside, its runs noted with these."""
        made = Recorded(self._runtime.successor(graph, version, fresh=fresh, targets=targets))
        made._notes, made.got = self._notes, self.got
        return made

    def forget(self) -> None:
        """Drop the runs noted so far; for when none is active."""
        self._notes.clear()
        self.got.clear()

    def newest(self, node: str) -> Run:
        """The run of a node that ended last."""
        return self._notes[node].runs[-1]

    def profile(self) -> Profile:
        """What was noted so far."""
        cold = {
            one.node: max((replica.started_s for replica in one.replicas), default=0.0)
            for one in self._runtime.status()
        }
        nodes = {
            node: NodeProfile(runs=notes.runs, cold_start_s=cold.get(node, 0.0))
            for node, notes in self._notes.items()
        }
        return Profile(nodes=nodes)
