"""A plan beside the real thing: the same arrivals, simulated and served on this machine."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...components.errors import MotetError
from ...components.frames import Audio, End, Fault, Frame
from ...pipelines import Graph, Pipeline
from ...pipelines.plan.cores import Room
from ...pipelines.plan.inputs import Arrival, Habits, drawn
from ...pipelines.plan.outcome import NodeOutcome, Outcome
from ...pipelines.plan.profile import Profile
from ...pipelines.plan.simulation import Simulation, split
from ...pipelines.runtimes import runtime_of
from ...pipelines.runtimes.base import share_cores
from ...pipelines.runtimes.local import setup_of
from ...pipelines.session import Session
from .quietroom import listen

LOOK_S = 1.0
SEEDS = 8


@dataclass(frozen=True, slots=True)
class Load:
    """About so many sessions at once for `seconds`; each asks, thinks, and asks again. In a
    `surge`, a quarter of them in the first and the last of three parts."""

    sessions: int
    seconds: float
    habits: Habits
    surge: bool = False

    def arrivals(self, graph: Graph) -> list[Arrival]:
        """The same each time."""
        few = self.sessions / 4 if self.surge else self.sessions
        levels = [(0.0, few), (self.seconds / 3, self.sessions), (self.seconds * 2 / 3, few)]
        requests = graph.spec.conversation is None
        return list(
            drawn([*levels, (self.seconds, 0.0)], self.habits, self.habits.seed, requests=requests)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Of a load: percentiles of the time to a turn's first output, and replicas by node, on
    average and at most.

    `p95_range_s` is where the 95th percentile of many such loads would be: by the turns of the one
    that was served (95 % confidence), by the plans that were made.
    """

    turns: int
    failed: int
    p50_s: float
    p95_s: float
    p95_range_s: tuple[float, float]
    replicas: dict[str, float]
    most: dict[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One load, as planned and as served."""

    load: Load
    planned: Found
    served: Found


def planned(graph: Graph, profile: Profile, load: Load) -> Found:
    """The mean of a few simulations of one machine, this one, which differ in what runs take."""
    cores = float(os.cpu_count() or 1)
    resources = share_cores(graph, cores)
    room = Room(cores, machines=1)
    places = {
        name: setup_of(node, resources[name]).concurrency for name, node in graph.nodes.items()
    }
    outcomes = [
        Simulation(graph, profile, places, habits=load.habits, room=room, seed=seed).run(
            load.arrivals(graph), load.seconds
        )
        for seed in range(SEEDS)
    ]
    found = [_found(outcome) for outcome in outcomes]
    return Found(
        turns=round(statistics.mean(one.turns for one in found)),
        failed=round(statistics.mean(one.failed for one in found)),
        p50_s=statistics.mean(one.p50_s for one in found),
        p95_s=statistics.mean(one.p95_s for one in found),
        p95_range_s=(min(one.p95_s for one in found), max(one.p95_s for one in found)),
        replicas={
            name: statistics.mean(one.replicas[name] for one in found) for name in graph.nodes
        },
        most={name: statistics.mean(one.most[name] for one in found) for name in graph.nodes},
    )


def _found(outcome: Outcome) -> Found:
    turns = len(outcome.latencies_s)
    # Ranks of an order statistic are binomial.
    off = 1.96 * math.sqrt(0.95 * 0.05 / max(turns, 1))
    return Found(
        turns=turns,
        failed=sum(node.refused + node.failed for node in outcome.nodes.values()),
        p50_s=outcome.percentile(0.5),
        p95_s=outcome.percentile(0.95),
        p95_range_s=(outcome.percentile(max(0.0, 0.95 - off)), outcome.percentile(0.95 + off)),
        replicas={name: node.mean_replicas() for name, node in outcome.nodes.items()},
        most={name: float(node.most_replicas()) for name, node in outcome.nodes.items()},
    )


@dataclass(slots=True)
class _Serving:
    """A load that is served: what was seen so far."""

    pipeline: Pipeline
    samples: Sequence[Frame]
    load: Load
    began_s: float = field(default_factory=time.monotonic)
    outcome: Outcome = field(default_factory=lambda: Outcome({}))
    failed: int = 0

    async def session(self, which: int, arrival: Arrival) -> None:
        """One session, at its time: a single turn, or turns until it is over."""
        await asyncio.sleep(self.began_s + arrival.at_s - time.monotonic())
        ends_s = time.monotonic() + arrival.length_s
        async with self.pipeline.session() as session:
            if self.pipeline.graph.spec.conversation is None:
                await self.turn(session, 1, which)
            elif self.pipeline.graph.entries(Audio):
                listening = asyncio.create_task(listen(session), name="a quiet room")
                try:
                    await self._talk(session, which, ends_s)
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
            else:
                await self._talk(session, which, ends_s)

    async def _talk(self, session: Session, which: int, ends_s: float) -> None:
        for number, pause_s in enumerate(self.load.habits.pauses(which), 1):
            await asyncio.sleep(pause_s)
            if time.monotonic() >= ends_s:
                return
            await self.turn(session, number, which + number - 1)

    async def warm(self) -> None:
        """A first turn, which doesn't count; the load begins when it is over."""
        async with self.pipeline.session() as session:
            await self.turn(session, 1, 0)
        self.outcome, self.failed = Outcome({}), 0
        self.began_s = time.monotonic()

    async def turn(self, session: Session, number: int, sample: int) -> None:
        """One turn to its end; notes how long the first output of the last node took."""
        session.start(number, self.samples[sample % len(self.samples)])
        asked_s, waits = time.monotonic(), True
        last = split(self.pipeline.graph)[1][-1]
        async for which, node, frame in session:
            if which != number:
                continue
            if isinstance(frame, End):
                return
            if isinstance(frame, Fault):
                self.failed += 1
            elif waits and node == last:
                now_s, waits = time.monotonic(), False
                self.outcome.latencies_s.append((now_s - self.began_s, now_s - asked_s))

    async def look(self) -> None:
        """Note the replicas of every node until cancelled."""
        while True:
            for node in self.pipeline.runtime.status():
                seen = self.outcome.nodes.setdefault(node.node, NodeOutcome())
                seen.replicas.append((time.monotonic() - self.began_s, len(node.replicas)))
            await asyncio.sleep(LOOK_S)


async def serve(graph: Graph, runtime: str, samples: Sequence[Frame], load: Load) -> Found:
    """Serve a load on a runtime of this machine, of the samples in turns.

    Raises:
        MotetError: a component can't be loaded, or a session be opened.
    """
    async with Pipeline(graph, runtime_of(runtime, graph)) as pipeline:
        serving = _Serving(pipeline, samples, load)
        await serving.warm()
        looking = asyncio.create_task(serving.look(), name="looks at the replicas")
        sessions = [
            asyncio.create_task(serving.session(which, one))
            for which, one in enumerate(load.arrivals(graph), 1)
        ]
        try:
            if sessions:
                await asyncio.wait(sessions, timeout=load.seconds)
        finally:
            for task in (looking, *sessions):
                task.cancel()
            results = await asyncio.gather(looking, *sessions, return_exceptions=True)
        for error in results:
            if isinstance(error, MotetError):
                raise error
    return replace(_found(serving.outcome), failed=serving.failed)


def render(comparisons: list[Comparison]) -> str:
    """The comparisons as a Markdown table: planned, served, and how far off the plan was."""
    lines = ["| sessions | what | planned | served | off |", "|---|---|---|---|---|"]
    for one in comparisons:
        lines += [f"| {one.load.sessions} | {row} |" for row in _rows(one.planned, one.served)]
    lines += ["", "In brackets: where p95 may be by chance, and where those of single plans are."]
    return "\n".join(lines)


def _rows(plan: Found, real: Found) -> Iterator[str]:
    yield _row("turns", plan.turns, real.turns)
    yield _row("failed", plan.failed, real.failed)
    yield _row("p50, s", plan.p50_s, real.p50_s)
    ranges = (" ({:.3g} to {:.3g})".format(*one.p95_range_s) for one in (plan, real))
    yield _row("p95, s", plan.p95_s, real.p95_s, *ranges)
    for name in plan.replicas:
        yield _row(f"replicas of {name}", plan.replicas[name], real.replicas.get(name, 0.0))
        yield _row(f"most of {name}", plan.most[name], real.most.get(name, 0.0))


def _row(what: str, plan: float, real: float, of_plan: str = "", of_real: str = "") -> str:
    off = f"{plan / real - 1:+.0%}" if real else ""
    return f"{what} | {plan:.3g}{of_plan} | {real:.3g}{of_real} | {off}"
