"""The Ray runtime: the policy is ours, settings are translated or refused, sessions survive."""

from __future__ import annotations

import asyncio
import importlib.util
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from motet.components.errors import MissingRequirement, SpecError
from motet.components.frames import Data, End, Fault, Frame, TextInput
from motet.pipelines import Graph, Pipeline, build
from motet.pipelines.runtimes import runtime_of
from motet.pipelines.runtimes.base import share_cores
from motet.pipelines.runtimes.local import setup_of
from motet.pipelines.runtimes.ray.deployment import check, options
from motet.pipelines.runtimes.ray.policy import ScalePolicy
from motet.pipelines.scaling import Scaler
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec, Scale

HAS_RAY = importlib.util.find_spec("ray") is not None


def graph(**node: Any) -> Graph:
    spec = {
        "name": "t",
        "nodes": {
            "a": {"use": "workerfakes:Worker", **node},
            "b": {"use": "workerfakes:Worker"},
        },
        "edges": ["input -> a -> b -> output"],
        "sessions": {"max_age_s": 60},
    }
    return build(PipelineSpec.model_validate(spec))


def test_the_policy_that_ray_calls_is_the_same_as_everywhere() -> None:
    scale = Scale(min_replicas=1, max_replicas=9, window_s=4, scale_down_delay_s=10)
    ours, theirs = Scaler(scale, 2), ScalePolicy(**{**scale.model_dump(), "concurrency": 2})
    replicas, most = 1, [0, 0]
    for step in range(200):
        now_s, load = step / 2, 14 if 20 < step < 90 else 1
        busy = {f"r{index}": 1.0 for index in range(3 if 120 < step < 160 else 0)}
        ours.observe(now_s, load, busy_replicas=len(busy))
        context = SimpleNamespace(
            current_time=now_s,
            total_num_requests=load,
            target_num_replicas=replicas,
            aggregated_metrics={"utilisation": busy},
        )
        wanted, state = theirs(context)
        assert wanted == ours.desired(now_s, replicas)
        assert state == {}
        replicas = wanted
        most[step >= 120] = max(most[step >= 120], replicas)
    assert (replicas, most) == (1, [9, 4]), "by the load, then by how busy the engines are"


def test_settings_are_translated() -> None:
    made = graph(
        scale={"min_replicas": 0, "max_replicas": 5, "concurrency": 3, "window_s": 7},
        resources={"cpus": 2, "gpus": 0.25, "memory_gb": 1.5},
        queue={"bound": 9},
    )
    check(made)
    node = made.nodes["a"]
    found = options(node, setup_of(node, share_cores(made, 4)["a"]), drain_s=60)
    assert found["max_ongoing_requests"] == 3
    assert found["max_queued_requests"] == -1, "the bound is kept by the head"
    assert found["graceful_shutdown_timeout_s"] == 60
    assert found["ray_actor_options"] == {
        "num_cpus": 2.0,
        "num_gpus": 0.25,
        "memory": 3 * 2**29,
    }
    scaling = found["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (0, 5)
    kwargs = scaling["policy"]["policy_kwargs"]
    assert (kwargs["concurrency"], kwargs["window_s"]) == (3, 7.0)
    ScalePolicy(**kwargs)


def test_what_ray_cannot_do_is_refused_all_at_once() -> None:
    made = graph(preload=False)
    made.nodes["b"] = replace(made.nodes["a"], name="b")
    with pytest.raises(SpecError) as caught:
        check(made)
    assert [flaw.path for flaw in caught.value.flaws] == ["nodes.a.preload", "nodes.b.preload"]


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_extra_is_named() -> None:
    with pytest.raises(MissingRequirement, match=r"pip install 'motet\[ray\]'"):
        runtime_of("ray", graph())


async def turn(session: Session, number: int) -> list[Frame]:
    found: list[Frame] = []
    async with asyncio.timeout(40):
        async for which, _, frame in session:
            if which == number:
                if isinstance(frame, End):
                    return found
                found.append(frame)
    raise AssertionError("the session ended")


def states(runtime: Any, node: str) -> list[str]:
    (found,) = [one for one in runtime.status() if one.node == node]
    return sorted(one.state for one in found.replicas)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(not HAS_RAY, reason="needs ray[serve]: `make ray-test`")
@pytest.mark.filterwarnings("default")
async def test_a_graph_on_ray() -> None:
    """One cluster for all of it, since it takes long to start: turns, faults, growth, drain."""
    scale = {"max_replicas": 3, "concurrency": 2, "window_s": 2, "scale_down_delay_s": 4}
    # On a busy machine a replica of Ray's takes longer to start than runs usually wait.
    runtime: Any = runtime_of("ray", graph(scale=scale, queue={"max_wait_s": 120}))
    async with Pipeline(runtime.graph, runtime) as pipeline:
        assert pipeline.ready
        async with pipeline.session() as session:
            texts = [TextInput(f"t{index}", index) for index in range(60)]
            session.start(1, *texts)
            assert await turn(session, 1) == texts
            session.start(2, TextInput("bad"))
            (fault,) = await turn(session, 2)
            assert isinstance(fault, Fault)
            assert fault.code == "invalid_value"
            session.start(3, TextInput("sleep"))
            await asyncio.sleep(0.3)
            session.interrupt()
            assert await turn(session, 3) == []

            pids: dict[int, object] = {}
            for number in range(4, 10):
                session.start(number, TextInput("pid"), TextInput("sleep"))
            async with asyncio.timeout(120):
                while len(pids) < 6:
                    number, _, frame = await anext(session)
                    assert isinstance(frame, Data)
                    pids[number] = frame.value
            assert len(set(pids.values())) == 3, "grown to three replicas of two places"
            await asyncio.sleep(1.5)
            assert states(runtime, "b") == ["ready"], "the other component stays"

            kept = {place: number for number, place in pids.items()}
            for number in set(pids) - set(kept.values()):
                session.interrupt(number)
            await asyncio.sleep(12)
            assert "ready" in states(runtime, "a")
            assert len(states(runtime, "a")) == 3, "replicas that go wait for their sessions"
            for number in kept.values():
                session.interrupt(number)
            async with asyncio.timeout(40):
                while states(runtime, "a") != ["ready"]:  # noqa: ASYNC110 - Ray is polled
                    await asyncio.sleep(0.5)

            session.start(20, TextInput("die"))
            (fault,) = await turn(session, 20)
            assert isinstance(fault, Fault)
            assert fault.code == "replica_gone"
            session.start(21, TextInput("pid"))
            assert isinstance((await turn(session, 21))[0], Data), "Ray brought a new one"
