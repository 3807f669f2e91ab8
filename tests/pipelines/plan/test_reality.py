"""A plan against the runtime itself: the same arrivals, simulated and served, on made-up time."""

from __future__ import annotations

import asyncio
import random
import selectors
import statistics
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from motet.components.base import Context
from motet.components.errors import MotetError
from motet.pipelines import build
from motet.pipelines.graph import Graph
from motet.pipelines.plan.inputs import Arrival
from motet.pipelines.plan.profile import NodeProfile, Profile, Run
from motet.pipelines.plan.simulation import Simulation
from motet.pipelines.pool import Pool
from motet.pipelines.runtimes.crew import Crew
from motet.pipelines.spec import PipelineSpec

COLD_S = 3.0


class MadeUpTime(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to whatever comes next instead of waiting for it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now_s


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: MadeUpTime) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self._loop.now_s += timeout
        return super().select(0)


def in_made_up_time(main: Coroutine[Any, Any, Any]) -> None:
    with asyncio.Runner(loop_factory=MadeUpTime) as runner:
        runner.run(main)


@dataclass
class FakeWorker:
    """A replica without a process: it is ready after `COLD_S`."""

    name: str
    changed: Callable[[Any], None]
    state: str = "starting"
    silent: bool = False
    utilisation: float | None = None
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    error: MotetError | None = None
    cold_start_s: float = 0.0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        self.tasks.append(asyncio.create_task(self._load()))

    async def _load(self) -> None:
        await asyncio.sleep(COLD_S)
        self.state, self.cold_start_s = "ready", COLD_S
        self.changed(self)

    async def stop(self, grace_s: float) -> None:
        self.state = "gone"


def graph() -> Graph:
    scale = {
        "max_replicas": 12,
        "concurrency": 2,
        "window_s": 6,
        "scale_down_delay_s": 20,
    }
    node = {"use": "workerfakes:Worker", "scale": scale, "queue": {"bound": 500}}
    spec = {"name": "t", "nodes": {"a": node}, "edges": ["input -> a -> output"]}
    return build(PipelineSpec.model_validate(spec))


@dataclass
class Seen:
    took_s: list[float] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)


async def serve(made: Graph, arrivals: list[Arrival], lengths_s: list[float], seen: Seen) -> None:
    """The runtime's own crew, with replicas that take `COLD_S` to load and runs of known length."""
    node = made.nodes["a"]
    pool = Pool(node.spec.scale, node.spec.queue, concurrency=2, where="a")
    count = iter(range(10_000))
    crew = Crew(node, pool, lambda changed: FakeWorker(f"a-{next(count)}", changed))  # type: ignore[arg-type,return-value]
    scaling = asyncio.create_task(crew.run())
    await crew.settled()
    loop = asyncio.get_running_loop()
    begin_s = loop.time()

    async def one(arrival: Arrival, length_s: float) -> None:
        await asyncio.sleep(begin_s + arrival.at_s - loop.time())
        asked_s = loop.time()
        async with crew.place(Context()):
            await asyncio.sleep(length_s)
        seen.took_s.append(loop.time() - asked_s)

    async def watch() -> None:
        while True:
            seen.replicas.append(len(pool.replicas))
            await asyncio.sleep(1.0)

    watching = asyncio.create_task(watch())
    async with asyncio.TaskGroup() as group:
        for arrival, length_s in zip(arrivals, lengths_s, strict=True):
            group.create_task(one(arrival, length_s))
    for task in (watching, scaling):
        assert not task.done()
        task.cancel()
    await asyncio.gather(watching, scaling, return_exceptions=True)
    await crew.close()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("per_second", [2.0, 6.0, 12.0])
def test_replicas_and_latency_are_as_planned(per_second: float) -> None:
    rng, made = random.Random(3), graph()
    arrivals, lengths_s, now_s = [], [], 0.0
    while now_s < 300:
        # The load doubles for a minute, so that replicas come and go.
        now_s += rng.expovariate(per_second * (2 if 120 < now_s < 180 else 1))
        arrivals.append(Arrival(now_s, 0.0))
        lengths_s.append(rng.choice([0.3, 0.5, 0.9]))
    seen = Seen()
    in_made_up_time(serve(made, arrivals, lengths_s, seen))
    assert len(seen.took_s) == len(arrivals)

    runs = [Run(first_s=one, busy_s=one) for one in lengths_s]
    profile = Profile(nodes={"a": NodeProfile(runs=runs, cold_start_s=COLD_S)})
    outcomes = [
        Simulation(made, profile, {"a": 2}, seed=seed).run(arrivals, now_s) for seed in range(4)
    ]
    planned_s = statistics.mean(outcome.percentile(0.95) for outcome in outcomes)
    real_s = sorted(seen.took_s)[int(0.95 * len(seen.took_s))]
    assert planned_s == pytest.approx(real_s, rel=0.2)
    planned = statistics.mean(outcome.nodes["a"].mean_replicas() for outcome in outcomes)
    assert planned == pytest.approx(statistics.mean(seen.replicas), rel=0.2)
