"""A plan beside the real thing: the same arrivals, simulated and served on this machine."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import statistics
import time
from dataclasses import dataclass, field, replace

import numpy as np

from ...components.errors import MotetError
from ...components.frames import Audio, End, Fault, Frame
from ...pipelines import Graph, Pipeline
from ...pipelines.plan import Simulation, split
from ...pipelines.planinputs import Arrival, Habits, steady
from ...pipelines.planoutcome import NodeOutcome, Outcome
from ...pipelines.profile import Profile
from ...pipelines.runtimes import runtime_of
from ...pipelines.runtimes.base import share_cores
from ...pipelines.runtimes.local import setup_of
from ...pipelines.session import Session

LOOK_S = 1.0
SEEDS = 8


@dataclass(frozen=True, slots=True)
class Load:
    """About so many sessions at once for `seconds`; each asks, thinks, and asks again."""

    sessions: int
    seconds: float
    habits: Habits
    seed: int = 0

    def arrivals(self, graph: Graph) -> list[Arrival]:
        """The same each time."""
        requests = graph.spec.conversation is None
        return steady(self.sessions, self.seconds, self.habits, self.seed, requests=requests)


@dataclass(frozen=True, slots=True)
class Found:
    """Of a load: percentiles of the time to a turn's first output, and mean replicas by node.

    `p95_range_s` is where the 95th percentile of many such loads would be: by the turns of the one
    that was served (95 % confidence), by the plans that were made.
    """

    turns: int
    failed: int
    p50_s: float
    p95_s: float
    p95_range_s: tuple[float, float]
    replicas: dict[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One load, as planned and as served."""

    load: Load
    planned: Found
    served: Found


def planned(graph: Graph, profile: Profile, load: Load, cores: float) -> Found:
    """The mean of a few simulations, which differ in the chance that turns meet."""
    resources = share_cores(graph, cores)
    places = {
        name: setup_of(node, resources[name]).concurrency for name, node in graph.nodes.items()
    }
    outcomes = [
        Simulation(graph, profile, places, habits=load.habits, seed=seed).run(
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
    )


@dataclass(slots=True)
class _Serving:
    """A load that is served: what was seen so far."""

    pipeline: Pipeline
    sample: Frame
    load: Load
    chance: random.Random
    began_s: float = field(default_factory=time.monotonic)
    outcome: Outcome = field(default_factory=lambda: Outcome({}))
    failed: int = 0

    async def session(self, arrival: Arrival) -> None:
        """One session, at its time: a single turn, or turns until it is over."""
        await asyncio.sleep(self.began_s + arrival.at_s - time.monotonic())
        ends_s = time.monotonic() + arrival.length_s
        async with self.pipeline.session() as session:
            if self.pipeline.graph.spec.conversation is None:
                await self.turn(session, 1)
                return
            if self.pipeline.graph.entries(Audio):
                # The nodes that listen hold a place from a caller's first sound on.
                await session.send(Audio(np.zeros(320, np.int16), 16_000))
            for number in itertools.count(1):
                await asyncio.sleep(self.chance.expovariate(1 / self.load.habits.think_s))
                if time.monotonic() >= ends_s:
                    return
                await self.turn(session, number)

    async def warm(self) -> None:
        """A first turn, which doesn't count; the load begins when it is over."""
        async with self.pipeline.session() as session:
            await self.turn(session, 1)
        self.outcome, self.failed = Outcome({}), 0
        self.began_s = time.monotonic()

    async def turn(self, session: Session, number: int) -> None:
        """One turn to its end; notes how long the first output of the last node took."""
        session.start(number, self.sample)
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


async def serve(graph: Graph, runtime: str, sample: Frame, load: Load) -> Found:
    """Serve a load on a runtime of this machine.

    Raises:
        MotetError: a component can't be loaded, or a session be opened.
    """
    async with Pipeline(graph, runtime_of(runtime, graph)) as pipeline:
        serving = _Serving(pipeline, sample, load, random.Random(load.seed))
        await serving.warm()
        looking = asyncio.create_task(serving.look(), name="looks at the replicas")
        sessions = [asyncio.create_task(serving.session(one)) for one in load.arrivals(graph)]
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
    names = list(comparisons[0].planned.replicas)
    lines = [
        "| sessions | turns | failed | p50 s | p95 s | "
        + " | ".join(f"replicas of {name}" for name in names)
        + " |",
        "|---" * (5 + len(names)) + "|",
    ]
    for one in comparisons:
        values = [
            (one.planned.turns, one.served.turns),
            (one.planned.failed, one.served.failed),
            (one.planned.p50_s, one.served.p50_s),
            (one.planned.p95_s, one.served.p95_s),
            *((one.planned.replicas[name], one.served.replicas.get(name, 0.0)) for name in names),
        ]
        cells = [_cell(plan, real) for plan, real in values]
        served, plans = (
            "{:.3g} to {:.3g}".format(*of.p95_range_s) for of in (one.served, one.planned)
        )
        cells[3] += f", by chance {served}; single plans {plans}"
        lines.append(f"| {one.load.sessions} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(plan: float, real: float) -> str:
    off = f" ({plan / real - 1:+.0%})" if real else ""
    return f"{plan:.3g} planned, {real:.3g} served{off}"
