"""The runtimes under one suite of tests: a pipeline on each of them, and what tests ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ports import HOST, free_port

from motet.components.base import Resources
from motet.components.frames import End, Frame
from motet.pipelines import Pipeline, build
from motet.pipelines.graph import Graph
from motet.pipelines.runtimes.base import Runtime
from motet.pipelines.runtimes.local import LocalRuntime
from motet.pipelines.runtimes.nodeserver import NodeServer
from motet.pipelines.runtimes.remote import RemoteRuntime
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec


class RemoteRuntimeHere(RemoteRuntime):
    """The remote runtime, with the servers of its nodes beside it."""

    def __init__(self, graph: Graph) -> None:
        ports = {name: free_port() for name in graph.nodes}
        super().__init__(graph, {name: f"{HOST}:{port}" for name, port in ports.items()})
        self._nodes = [
            (NodeServer(node, Resources(), grace_s=1.0), f"{HOST}:{ports[name]}")
            for name, node in graph.nodes.items()
        ]
        self._served: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._served = [
            asyncio.create_task(server.serve(address, signals=False))
            for server, address in self._nodes
        ]
        await super().start()

    async def close(self) -> None:
        await super().close()
        for server, _ in self._nodes:
            server.drain()
        await asyncio.gather(*self._served)


RUNTIMES: dict[str, Callable[[Graph], Runtime]] = {
    "local": LocalRuntime,
    "workers": WorkersRuntime,
    "remote": RemoteRuntimeHere,
}


def graph(uses: dict[str, str], edges: list[Any], **extra: Any) -> Graph:
    """A graph of these components; `nodes` has settings of single nodes."""
    node = {key: extra.pop(key) for key in ("scale", "queue", "options") if key in extra}
    own = extra.pop("nodes", {})
    nodes = {name: {"use": use, **node, **own.get(name, {})} for name, use in uses.items()}
    return build(
        PipelineSpec.model_validate({"name": "t", "nodes": nodes, "edges": edges, **extra})
    )


def in_a_row(*uses: str, **extra: Any) -> Pipeline:
    """A pipeline of components in this process, `n0` behind the input and the last before the
    output."""
    names = [f"n{index}" for index in range(len(uses))]
    way = " -> ".join(["input", *names, "output"])
    return Pipeline(graph(dict(zip(names, uses, strict=True)), [way], **extra))


RAY = pytest.param(
    "ray",
    marks=[
        pytest.mark.timeout(240, func_only=True),
        pytest.mark.slow,
        pytest.mark.filterwarnings("default"),
    ],
)


def on_ray(request: pytest.FixtureRequest) -> Callable[[Graph], Runtime]:
    """The Ray runtime on a cluster of three nodes."""
    cluster = request.getfixturevalue("ray_cluster")
    from motet.pipelines.runtimes.ray.serve import RayRuntime

    return lambda graph: RayRuntime(graph, address=cluster.address)


@pytest.fixture(params=[*RUNTIMES, RAY])
def serve(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`serve(uses, edges)` opens a session on a pipeline of the runtime under test."""
    runtime = on_ray(request) if request.param == "ray" else RUNTIMES[request.param]

    @asynccontextmanager
    async def opened(
        uses: dict[str, str], edges: list[Any], **extra: Any
    ) -> AsyncIterator[tuple[Pipeline, Session]]:
        made = graph(uses, edges, **extra)
        async with Pipeline(made, runtime(made)) as pipeline:
            assert pipeline.ready
            async with pipeline.session(session_id="s1", key="k1") as session:
                yield pipeline, session

    return opened


async def turn(session: Session, number: int) -> list[Frame]:
    """The frames of a turn until its end."""
    found: list[Frame] = []
    async with asyncio.timeout(40):
        async for which, _, frame in session:
            if which == number:
                found.append(frame)
                if isinstance(frame, End):
                    return found
    raise AssertionError("the session ended")


def idle(pipeline: Pipeline) -> bool:
    """Whether nothing runs and nothing waits."""
    return all(node.active == node.queued == 0 for node in pipeline.runtime.status())


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for what another task brings about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's counter
            await asyncio.sleep(0.005)
