"""The Ray runtime on several nodes: what others deployed is used, a dead node costs what it ran."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import psutil
import pytest
import yaml

from motet.components.base import Context
from motet.components.errors import SpecError
from motet.components.frames import Data, End, Fault, Frame, TextInput
from motet.pipelines import Graph, Pipeline, build
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240, func_only=True),
    pytest.mark.filterwarnings("default"),
]


def runtime(cluster: Any, use: str = "workerfakes:Worker", **node: Any) -> Any:
    from motet.pipelines.runtimes.ray.serve import RayRuntime

    spec = {
        "name": "nodes",
        "nodes": {
            "a": {"use": use, **node},
            "llm": {"use": "workerfakes:Talk"},
        },
        "edges": ["input -> a -> output", "conversation -> llm -> output"],
        "conversation": {},
    }
    return RayRuntime(build(PipelineSpec.model_validate(spec)), address=cluster.address)


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited is a cluster's work
            await asyncio.sleep(0.1)


def states(made: Any) -> list[str]:
    return [one.state for one in made.status()[0].replicas]


async def test_what_a_ray_service_deployed_is_used_and_left_there(ray_cluster: Any) -> None:
    from ray.serve.schema import ServeDeploySchema

    from motet.pipelines.deploy.kubernetes import DeploySettings
    from motet.pipelines.deploy.rayservice import ray_manifests
    from motet.pipelines.runtimes.ray import api as rayapi
    from motet.pipelines.runtimes.ray.service import RayServiceRuntime

    half = {"cpus": 0.5}
    made = runtime(ray_cluster, resources=half).graph
    changed = runtime(ray_cluster, "workerfakes:Engaged", resources=half).graph

    def config(canary: Graph | None) -> Any:
        for one in ray_manifests(made, DeploySettings("image"), canary=canary):
            if one["kind"] == "RayService":
                found = yaml.safe_load(one["spec"]["serveConfigV2"])
                return ServeDeploySchema.model_validate(found)
        raise AssertionError("no RayService")

    serving = RayServiceRuntime(made, address=ray_cluster.address)
    await asyncio.to_thread(join, ray_cluster.address)
    started = asyncio.create_task(serving.start())
    # It waits for the service, which is there only now.
    await asyncio.to_thread(deploy, config(None))
    await asyncio.wait_for(started, 120)
    before = await pid(made, serving)
    with pytest.raises(SpecError, match=r"motet deploy ray --canary.* --targets a=APPLICATION"):
        serving.successor(changed, "2")

    await asyncio.to_thread(deploy, config(changed))
    canary = serving.successor(changed, "2", targets={"a": "motet-nodes-a-canary"})
    canary._patience_s = 120
    await canary.start()
    assert await pid(changed, canary) not in {before, 0}
    assert await pid(made, serving) == before, "the one beside it is left as it was"
    assert [one.version for one in canary.status()] == ["2", "1"]
    await canary.close()
    await serving.close()
    apps = {f"motet-nodes-{part}" for part in (*made.nodes, "a-canary")}
    assert apps <= rayapi.running(), "they are the service's to end"
    for app in apps:
        await asyncio.to_thread(rayapi.serve.delete, app)


async def pid(made: Graph, serving: Any) -> int:
    """The process that answers."""
    async with Session(made, serving, Context("s")) as session:
        session.start(1, TextInput("pid"))
        async with asyncio.timeout(60):
            _, _, frame = await anext(session)
        assert isinstance(frame, Data)
        return frame.value


def join(address: str) -> None:
    from motet.pipelines.runtimes.ray.api import ray, serve

    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    serve.start(proxy_location="Disabled")


def deploy(config: Any) -> None:
    """As Serve's own REST door does for KubeRay."""
    from ray.serve.context import _get_global_client

    _get_global_client().deploy_apps(config)


async def test_one_run_that_keeps_its_replica_busy_brings_another(ray_cluster: Any) -> None:
    scale = {"max_replicas": 2, "concurrency": 8, "scale_down_delay_s": 0}
    made = runtime(ray_cluster, "workerfakes:Engaged", scale=scale)
    async with Pipeline(made.graph, made) as pipeline, pipeline.session() as session:
        assert states(made) == ["ready"]
        session.start(1, TextInput("sleep"))
        await until(lambda: states(made) == ["ready", "ready"], seconds=120)
        session.interrupt(1)
        await until(lambda: states(made) == ["ready"], seconds=120)


def raylet_of(process: int) -> int:
    return next(one.pid for one in psutil.Process(process).parents() if "raylet" in one.name())


async def test_a_dead_node_costs_what_it_ran_and_nothing_else(ray_cluster: Any) -> None:
    scale = {"min_replicas": 2, "max_replicas": 2, "concurrency": 4}
    made = runtime(ray_cluster, scale=scale, resources={"cpus": 1})
    async with Pipeline(made.graph, made) as pipeline, pipeline.session() as session:
        turns: dict[int, int] = {}
        for number in range(1, 6):  # one more than a replica takes
            session.start(number, TextInput("pid"), TextInput("sleep"))
        async with asyncio.timeout(60):
            while len(turns) < 5:
                number, _, frame = await anext(session)
                assert isinstance(frame, Data)
                turns[number] = raylet_of(frame.value)
        assert set(turns.values()) == set(ray_cluster.raylets), "a replica on each node"

        victim = Counter(turns.values()).most_common(1)[0][0]
        for one in (psutil.Process(victim), *psutil.Process(victim).children(recursive=True)):
            one.kill()
        lost = {number for number, raylet in turns.items() if raylet == victim}
        ended: dict[int, Frame] = {}
        async with asyncio.timeout(30):
            while ended.keys() != lost:
                number, _, frame = await anext(session)
                if isinstance(frame, Fault):
                    assert frame.code == "replica_gone"
                    ended[number] = frame
                else:
                    assert isinstance(frame, End)
        async with pipeline.session() as other:
            for number in range(1, 4):
                other.start(number, TextInput(f"t{number}"))
                async with asyncio.timeout(60):
                    got = [(await anext(other))[::2] for _ in range(2)]
                assert got == [(number, TextInput(f"t{number}")), (number, End())]
        await until(lambda: "ready" in states(made) and len(states(made)) == 2)
