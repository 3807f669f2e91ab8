"""A canary of one component whose replicas others start: beside the old ones, the rest shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ports import HOST, free_port
from versioned import asked, graph, until

from motet.components.base import Resources
from motet.components.errors import ComponentFailed, SpecError
from motet.pipelines import Pipeline
from motet.pipelines.canary import CanarySpec
from motet.pipelines.runtimes.local import LocalRuntime
from motet.pipelines.runtimes.nodeserver import NodeServer
from motet.pipelines.runtimes.remote import RemoteRuntime

pytestmark = pytest.mark.timeout(60)


@asynccontextmanager
async def node(name: str, **options: Any) -> AsyncIterator[str]:
    """`motet node`, in this process; its address."""
    server = NodeServer(graph(**options).nodes[name], Resources(), grace_s=1.0)
    address = f"{HOST}:{free_port()}"
    task = asyncio.create_task(server.serve(address, signals=False))
    try:
        yield address
    finally:
        server.drain()
        await task


@asynccontextmanager
async def served() -> AsyncIterator[Pipeline]:
    async with node("a") as a, node("b") as b:
        runtime = RemoteRuntime(graph(), {"a": a, "b": b}, patience_s=20)
        async with Pipeline(graph(), runtime) as pipeline:
            yield pipeline


async def test_a_changed_component_has_replicas_of_its_own_and_the_rest_is_shared() -> None:
    async with served() as pipeline, node("b", tag="new") as beside:
        versions = pipeline.versions
        version = await versions.start(graph(tag="new"), targets={"b": beside})
        versions.begin(version, CanarySpec(share=0.5))
        assert {await asked(pipeline) for _ in range(4)} == {"old", "new"}
        ours, theirs = pipeline.runtime.status(), version.runtime.status()
        assert [one.version for one in theirs] == ["1", "2"]
        assert theirs[0] == ours[0], "the very same"
        assert theirs[1].target == beside != ours[1].target

        versions.promote()
        assert {await asked(pipeline) for _ in range(4)} == {"new"}
        await until(lambda: not versions.retiring)
        scaled = graph(tag="new", sessions={"max_sessions": 3})
        versions.adopt(await versions.start(scaled))
        assert await asked(pipeline) == "new", "what was promoted stays where it is"


async def test_a_canary_that_fails_is_called_off_and_its_replicas_left() -> None:
    async with served() as pipeline, node("b", tag="new", fails=True) as beside:
        versions = pipeline.versions
        spec = CanarySpec(share=1, max_fault_rate=0, min_runs=3)
        changed = graph(tag="new", fails=True)
        versions.begin(await versions.start(changed, targets={"b": beside}), spec)
        for _ in range(3):
            with pytest.raises(ComponentFailed, match="told to fail"):
                await asked(pipeline)
        assert versions.canary is None
        assert await asked(pipeline) == "old"
        await until(lambda: not versions.retiring)


async def test_a_canary_whose_replicas_vanish_gets_nobody_until_they_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("motet.pipelines.runtimes.fleet.LOOK_S", 0.1)
    async with served() as pipeline:
        versions = pipeline.versions
        async with node("b", tag="new") as beside:
            version = await versions.start(graph(tag="new"), targets={"b": beside})
            versions.begin(version, CanarySpec(share=1))
            assert await asked(pipeline) == "new"
        await until(lambda: not version.runtime.ready)
        assert await asked(pipeline) == "old"
        monkeypatch.setattr(f"{__name__}.free_port", lambda: int(beside.rpartition(":")[2]))
        async with node("b", tag="new"):
            await until(lambda: version.runtime.ready)
            assert await asked(pipeline) == "new"


async def test_replicas_of_something_else_are_no_canary() -> None:
    async with served() as pipeline, node("b", tag="other") as beside:
        with pytest.raises(ComponentFailed, match=r"runs .*Tag, .*; the pipeline file says .*Tag"):
            await pipeline.versions.start(graph(tag="new"), targets={"b": beside})
        assert [version.role for version in pipeline.versions.all] == ["stable"]
        assert await asked(pipeline) == "old"


def test_a_changed_component_needs_a_target_and_targets_a_node_and_a_port() -> None:
    runtime = RemoteRuntime(graph(), {"a": "one:1", "b": "two:2"})
    with pytest.raises(SpecError, match=r"nodes\.b\.options: .* --targets b=HOST:PORT"):
        runtime.successor(graph(tag="new"), "2")
    with pytest.raises(SpecError) as caught:
        runtime.successor(graph(tag="new"), "2", targets={"b": "two", "c": "three:3"})
    assert [flaw.path for flaw in caught.value.flaws] == ["targets.c", "targets.b"]
    with pytest.raises(SpecError, match=r"targets\.b: the runtime starts its replicas itself"):
        LocalRuntime(graph()).successor(graph(tag="new"), "2", targets={"b": "two:2"})
