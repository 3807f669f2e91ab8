"""Versions on Ray: what is the same is one deployment, a new one stands beside the old."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
from typing import Any

import pytest

from motet.components.frames import Data, TextInput
from motet.pipelines import Graph, Pipeline, build
from motet.pipelines.canary import CanarySpec
from motet.pipelines.runtimes import runtime_of
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray[serve]"),
]


def graph(tag: str) -> Graph:
    nodes = {
        "a": {"use": "versionfakes:Tag", "options": {"tag": "same"}},
        "b": {"use": "versionfakes:Tag", "options": {"tag": tag}},
    }
    spec = {"name": "v", "nodes": nodes, "edges": ["input -> a -> b -> output"]}
    return build(PipelineSpec.model_validate(spec))


async def answer(session: Session, turn: int) -> list[tuple[str, int]]:
    session.start(turn, TextInput("x"))
    async with asyncio.timeout(40):
        async for number, _, frame in session:
            if number == turn and isinstance(frame, Data):
                return [tuple(one) for one in frame.value]
    raise AssertionError("the session ended")


async def test_a_canary_and_its_promotion() -> None:
    runtime: Any = runtime_of("ray", graph("old"))
    async with Pipeline(runtime.graph, runtime) as pipeline:
        versions = pipeline.versions
        async with pipeline.session() as old:
            before = await answer(old, 1)
            versions.begin(await versions.start(graph("new")), CanarySpec(share=1))
            async with pipeline.session() as new:
                after = await answer(new, 1)
                assert [tag for tag, _ in after] == ["same", "new"]
                assert after[0] == before[0], "the node that is the same has moved"
            versions.promote()
            assert await answer(old, 2) == before
        async with asyncio.timeout(90):
            while versions.retiring:  # noqa: ASYNC110 - what is awaited is the cluster
                await asyncio.sleep(0.1)
        async with pipeline.session() as again:
            assert await answer(again, 1) == after
        found = {one.node: one.version for one in pipeline.runtime.status()}
        assert found == {"a": "1", "b": "2"}
        ray_apps: Any = importlib.import_module("ray.serve").status().applications
        names = {re.sub(r"-job-[0-9a-f]+\.\d+", "", name) for name in ray_apps}
        assert names == {"motet-v-a", "motet-v-b-v2"}
