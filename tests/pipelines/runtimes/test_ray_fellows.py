"""On Ray too a run lends work to other replicas, never to its own."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from runtimes import graph, idle, turn, until

from motet.components.frames import Data, TextInput
from motet.pipelines import Pipeline

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray[serve]"),
    pytest.mark.timeout(240, func_only=True),
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]


async def test_what_a_run_lends_goes_to_another_replica(ray_cluster: Any) -> None:
    from motet.pipelines.runtimes.ray.serve import RayRuntime

    scale = {"min_replicas": 2, "max_replicas": 2, "concurrency": 2}
    made = graph({"a": "workerfakes:Lender"}, ["input -> a -> output"], scale=scale)
    runtime = RayRuntime(made, address=ray_cluster.address)

    def ready() -> bool:
        return sum(one.state == "ready" for one in runtime.status()[0].replicas) == 2

    async with Pipeline(made, runtime) as pipeline, pipeline.session() as session:
        await until(ready, seconds=60)
        for number in range(1, 6):
            session.start(number, *map(TextInput, ("pid", "lend nap pid", "lend nap pid")))
            own, *lent, _ = await turn(session, number)
            assert isinstance(own, Data)
            pids = {one.value for one in lent}  # type: ignore[attr-defined]
            assert len(pids) == 1
            assert own.value not in pids
        session.start(9, *(TextInput("lend nap pid") for _ in range(3)))
        *lent, _ = await turn(session, 9)
        assert [one.value for one in lent].count("overloaded") == 1, "two places are all there are"  # type: ignore[attr-defined]
        await until(lambda: idle(pipeline))
        assert runtime.status()[0].refused == 0
