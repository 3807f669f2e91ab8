"""Measures a graph for `motet plan`: each node by itself, on what it gets in a whole turn."""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import statistics
from collections.abc import AsyncIterator, Sequence

from ...components.base import Context
from ...components.errors import BadInput
from ...components.frames import Audio, End, Fault, Frame
from ...pipelines import Graph, Pipeline
from ...pipelines.plan.profile import NodeProfile, Profile, Recorded, Run, needs, ordered
from ...pipelines.plan.report import one_each
from ...pipelines.plan.simulation import split
from ...pipelines.runtimes import runtime_of
from ...pipelines.session import Session
from .machine import use
from .quietroom import listen

FEWEST_ROUNDS = 4
PAUSE_S = 0.3
"""Before a run that is measured alone: without one the process and its caches never cool, and it
takes half as long as those that come now and then."""

BURSTS, BURST = 7, 4
"""How often, and how many, runs begin all at once, to see whether they wait for one another."""

IDLE_S = 2.0
LISTENERS, LISTEN_S = 4, 4.0


async def measure(
    graph: Graph,
    samples: Sequence[Frame],
    turns: int,
    levels: Sequence[int] | None = None,
    runtime: str = "local",
) -> Profile:
    """Send the samples as whole turns, one at a time, then let each node run alone on what it got
    in them, `levels` at once (None: doubling, up to what a replica serves), on one replica.

    No more at once than a replica serves: runs that waited would look slow. At each level at least
    `turns`, and several of each that is at work; a first turn, which warms up, isn't counted.

    Raises:
        MotetError: a turn failed.
    """
    single = one_each(graph)
    recorded = Recorded(runtime_of(runtime, single))
    async with Pipeline(single, recorded) as pipeline:
        await _turns(pipeline, samples, 1)
        return await _Measuring(pipeline, recorded, turns, levels).profile(samples)


Inputs = Sequence[Sequence[Frame]]
"""The frames that a node got, by the number of the sample that they came of."""


class _Measuring:
    """A pipeline that is measured, and what it costs while nobody asks."""

    def __init__(
        self, pipeline: Pipeline, recorded: Recorded, turns: int, levels: Sequence[int] | None
    ) -> None:
        self._pipeline = pipeline
        self._recorded = recorded
        self._turns = turns
        self._levels = levels
        self._idle_cores = 0.0
        self._most = {one.node: one.concurrency for one in recorded.status()}
        self._sessions = itertools.count(1)

    async def profile(self, samples: Sequence[Frame]) -> Profile:
        """All of it."""
        used = _Used(0.0)
        await asyncio.sleep(IDLE_S)
        self._idle_cores = used.cpu_s() / IDLE_S
        self._recorded.forget()
        used, turns = _Used(self._idle_cores), max(self._turns, len(samples))
        await _turns(self._pipeline, samples, turns)
        turn_cpu_s = used.cpu_s() / turns
        whole, got = self._recorded.profile(), dict(self._recorded.got)
        nodes: dict[str, NodeProfile] = {}
        standing, path = split(self._pipeline.graph)
        reached = [name for name in path if name in got]
        for name, before in zip(reached, [None, *reached], strict=False):
            inputs = got[name][: len(samples)] if before is None else got[name]
            node = await self._node(name, inputs, whole.nodes[name].cold_start_s)
            if before is not None:
                runs = whole.nodes[before].runs, whole.nodes[name].runs, node.runs
                node = node.model_copy(update={"needs": needs(*runs)})
            nodes[name] = node
        nodes = dearer(nodes, turn_cpu_s)
        if standing:
            nodes[standing[0]] = NodeProfile(standing_cores=await self._standing())
        cores = float(os.cpu_count() or 1)
        machine = f"{platform.machine()}, {cores:g} cores"
        return Profile(machine=machine, cores=cores, samples=len(samples), nodes=nodes)

    async def _node(self, name: str, inputs: Inputs, cold_start_s: float) -> NodeProfile:
        """One node by itself, at each level and in bursts."""
        most = self._most[name]
        levels = self._levels or [*(2**power for power in range(most.bit_length())), most]
        runs: list[Run] = []
        for level in sorted({min(level, most) for level in levels}):
            pause_s = PAUSE_S if level == 1 else 0.0
            count = max(self._turns, len(inputs), FEWEST_ROUNDS * level)
            runs += await self._runs(name, inputs, level, count, pause_s)
        bursts: list[list[Run]] = []
        for _ in range(BURSTS if most > 1 else 0):
            await asyncio.sleep(PAUSE_S)
            burst = min(most, BURST)
            bursts.append(await self._runs(name, inputs[:1], burst, burst, 0.0))
        return NodeProfile(runs=runs, in_order=ordered(runs, bursts), cold_start_s=cold_start_s)

    async def _runs(
        self, name: str, inputs: Inputs, level: int, count: int, pause_s: float
    ) -> list[Run]:
        """So many runs of a node, `level` at once, each with its part of the time of the cores."""
        self._recorded.forget()
        used, left = _Used(self._idle_cores), iter(range(count))
        found: list[Run] = []

        async def keep_running() -> None:
            session = f"profile-{next(self._sessions)}"
            for turn, number in enumerate(left, 1):
                await asyncio.sleep(pause_s)
                sample = number % len(inputs)
                frames = _one_by_one(inputs[sample])
                async for _ in self._recorded.call(name, frames, Context(session, turn)):
                    pass
                found.append(self._recorded.newest(name).model_copy(update={"sample": sample}))

        await asyncio.gather(*(keep_running() for _ in range(level)))
        cpu_s = used.cpu_s() / count
        return [run.model_copy(update={"cpu_s": cpu_s}) for run in found]

    async def _standing(self) -> float:
        """The cores that a session keeps busy which listens to a quiet room."""
        if not self._pipeline.graph.entries(Audio):
            return 0.0
        used = _Used(self._idle_cores)
        await asyncio.gather(*(self._listen() for _ in range(LISTENERS)))
        return used.cpu_s() / LISTENERS / LISTEN_S

    async def _listen(self) -> None:
        async with self._pipeline.session() as session, asyncio.timeout(LISTEN_S + 60):
            listening = asyncio.create_task(listen(session))
            try:
                await asyncio.wait([listening], timeout=LISTEN_S)
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


class _Used:
    """What this process and its children use from now on, without what they do when idle."""

    def __init__(self, idle_cores: float) -> None:
        self._idle_cores = idle_cores
        self._began_s = asyncio.get_running_loop().time()
        self._before_s = use().cpu_s

    def cpu_s(self) -> float:
        """The seconds that cores were busy so far."""
        idle_s = self._idle_cores * (asyncio.get_running_loop().time() - self._began_s)
        return max(0.0, use().cpu_s - self._before_s - idle_s)


def dearer(nodes: dict[str, NodeProfile], turn_cpu_s: float) -> dict[str, NodeProfile]:
    """The nodes with what a whole turn costs beyond them, as for the frames' way from one to the
    next, spread over their runs in proportion."""
    alone = ([run.cpu_s for run in node.runs if round(run.active) == 1] for node in nodes.values())
    nodes_cpu_s = sum(statistics.fmean(one) for one in alone if one)
    factor = max(1.0, turn_cpu_s / nodes_cpu_s) if nodes_cpu_s else 1.0
    return {
        name: node.model_copy(
            update={
                "runs": [run.model_copy(update={"cpu_s": run.cpu_s * factor}) for run in node.runs]
            }
        )
        for name, node in nodes.items()
    }


async def _one_by_one(frames: Sequence[Frame]) -> AsyncIterator[Frame]:
    for frame in frames:
        yield frame


async def _turns(pipeline: Pipeline, samples: Sequence[Frame], count: int) -> None:
    """Turns of one session, each to its end and after a pause."""
    async with pipeline.session() as session:
        for turn in range(1, count + 1):
            await asyncio.sleep(PAUSE_S)
            session.start(turn, samples[(turn - 1) % len(samples)])
            await _end(session, turn)


async def _end(session: Session, turn: int) -> None:
    async for number, node, frame in session:
        if isinstance(frame, Fault):
            raise BadInput(f"a turn failed: {frame.message}", where=node)
        if number == turn and isinstance(frame, End):
            return
