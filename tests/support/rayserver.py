"""A server on a Ray cluster, in a process of its own: for tests that let it live beside others.

Says "ready" when it serves a run that doesn't end, then answers each line of its input with the
process of its replica, until it is killed.
"""

from __future__ import annotations

import asyncio
import sys

from motet.components.frames import Data, TextInput
from motet.pipelines import Graph, Pipeline, build
from motet.pipelines.spec import PipelineSpec


def graph() -> Graph:
    """What all of them serve."""
    nodes = {"a": {"use": "workerfakes:Worker"}}
    spec = {"name": "shared", "nodes": nodes, "edges": ["input -> a -> output"]}
    return build(PipelineSpec.model_validate(spec))


async def replica(pipeline: Pipeline) -> int:
    """The process that answers."""
    async with asyncio.timeout(60):
        async for frame in pipeline.ask(TextInput("pid")):
            assert isinstance(frame, Data)
            return frame.value
    raise AssertionError("no answer")


async def main(address: str) -> None:
    from motet.pipelines.runtimes.ray.serve import RayRuntime

    made = graph()
    async with (
        Pipeline(made, RayRuntime(made, address=address)) as pipeline,
        pipeline.session() as session,
    ):
        session.start(1, TextInput("pid"), TextInput("sleep"))
        await anext(session)
        tell("ready")
        while await asyncio.to_thread(sys.stdin.readline):
            tell(await replica(pipeline))


def tell(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
