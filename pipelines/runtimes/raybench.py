"""Measures Ray beside workers: paced sessions over one component, then growth and shrinking."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

import uvloop

from ...components.base import Component, Context, closing
from ...components.frames import Audio, Data, Frame, Prompt, TextDelta, TextInput
from ..graph import Graph
from ..pipeline import Pipeline
from ..spec import PipelineSpec, Scale
from ..validate import build
from . import runtime_of
from .base import Runtime
from .growbench import SAMPLES, Growth, grow_and_shrink
from .hopbench import Call, cpu_s, paced

GROWS = Scale(max_replicas=3, concurrency=4, window_s=2.0, scale_down_delay_s=4.0)
"""How the ear is scaled in the part that grows and shrinks."""


class Echo(Component):
    """Gives back what it hears; to a text, its process and the CPU seconds of that."""

    accepts = (Audio, TextInput)
    emits = (Audio, Data)
    concurrency = 512

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """See `Component.run`."""
        del context
        async for frame in frames:
            yield Data([os.getpid(), cpu_s()]) if isinstance(frame, TextInput) else frame


class Agree(Component):
    """What a conversation needs at its end: it says yes to every prompt."""

    accepts = (Prompt,)
    emits = (TextDelta,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """See `Component.run`."""
        del context
        async for _ in frames:
            yield TextDelta("Yes.")


def echoing() -> Graph:
    """One component, one replica."""
    nodes = {"echo": {"use": f"{__name__}:Echo"}}
    spec = {"name": "bench-echo", "nodes": nodes, "edges": ["input -> echo -> output"]}
    return build(PipelineSpec.model_validate(spec))


def talking(scale: Scale) -> Graph:
    """Conversations whose ear, the node `echo`, is scaled so."""
    nodes = {
        "echo": {"use": f"{__name__}:Echo", "scale": scale.model_dump()},
        "llm": {"use": f"{__name__}:Agree"},
    }
    edges = ["input -> echo -> output", "conversation -> llm -> output"]
    spec = {"name": "bench-talk", "nodes": nodes, "edges": edges, "conversation": {}}
    return build(PipelineSpec.model_validate(spec))


@dataclass(slots=True)
class Pace:
    """What paced sessions on a runtime took: round trips, and CPU of both ends, in seconds."""

    runtime: str
    took: list[float] = field(default_factory=list[float])
    late: int = 0
    caller_s: float = 0.0
    replica_s: float = 0.0

    def row(self) -> str:
        """A line of the table."""
        parts = statistics.quantiles(self.took, n=100)
        count = len(self.took)
        return (
            f"| {self.runtime} | {parts[49] * 1e3:.2f} | {parts[98] * 1e3:.2f}"
            f" | {self.late} of {count}"
            f" | {self.caller_s / count * 1e6:.0f} + {self.replica_s / count * 1e6:.0f} |"
        )


async def pace(made: Runtime, into: Pace, sessions: int, seconds: float) -> None:
    """Run so many sessions of 50 chunks of 640 bytes a second on the one replica."""
    call = partial(made.call, "echo")
    caller_s, (_, replica_s) = cpu_s(), await asked(call)
    late = await asyncio.gather(
        *(paced(call, number, seconds, SAMPLES, into.took) for number in range(sessions))
    )
    into.late += sum(late)
    into.caller_s += cpu_s() - caller_s
    into.replica_s += (await asked(call))[1] - replica_s


async def asked(call: Call) -> tuple[int, float]:
    """The process of a replica, and its CPU seconds."""

    async def question() -> AsyncIterator[Frame]:
        yield TextInput("who are you?")

    async with closing(call(question(), Context("bench"))) as answers:
        async for frame in answers:
            if isinstance(frame, Data):
                return frame.value[0], frame.value[1]
    raise RuntimeError("the replica didn't answer")


async def measure(
    runtimes: Sequence[str], sessions: int, seconds: float, rounds: int
) -> tuple[list[Pace], list[Growth]]:
    """All of it, the runtimes side by side: in turns, so that what else the machine does meets all.

    Raises:
        MissingRequirement: Ray isn't installed.
    """
    paces = [Pace(name) for name in runtimes]
    async with AsyncExitStack() as open_:
        echoes = [runtime_of(name, echoing()) for name in runtimes]
        for made in echoes:
            open_.push_async_callback(made.close)
            await made.start()
        for _ in range(rounds):
            for made, into in zip(echoes, paces, strict=True):
                await pace(made, into, sessions, seconds)
    growths: list[Growth] = []
    for name in runtimes:
        async with Pipeline(graph := talking(GROWS), runtime_of(name, graph)) as pipeline:
            growths.append(await grow_and_shrink(name, pipeline, node="echo", conversations=12))
    return paces, growths


def main(runtimes: Sequence[str], sessions: int, seconds: float, rounds: int) -> str:
    """What `motet bench ray` prints."""
    paces, growths = uvloop.run(measure(runtimes, sessions, seconds, rounds))
    lines = [
        "| runtime | p50 ms | p99 ms | late frames | CPU µs per frame, caller + replica |",
        "|---|---|---|---|---|",
        *(one.row() for one in paces),
        "",
        *(one.line() for one in growths),
    ]
    return "\n".join(lines)
