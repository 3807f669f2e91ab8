"""Shows that components scale apart: a load on one node, and every node's replicas over time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from ...components.base import Context, closing
from ...components.errors import BadInput, MotetError, nearest
from ...components.frames import (
    Audio,
    Frame,
    Message,
    Prompt,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TextInput,
)
from ..graph import Graph, Node
from ..spec import Scale
from . import runtime_of
from .base import Runtime

LOOK_S = 0.5
COLOURS = ("#0b6e99", "#d1603d", "#5b8e3e", "#8a5aa8", "#b8860b", "#555555")


@dataclass(frozen=True, slots=True)
class Sample:
    """Replicas that serve, by node, at a time; `load` is how many runs were asked for."""

    at_s: float
    load: int
    replicas: dict[str, int]


@dataclass(slots=True)
class ScaleResult:
    """What was seen of a load on one node."""

    node: str
    runtime: str
    samples: list[Sample] = field(default_factory=list[Sample])
    failed: int = 0

    def most(self, node: str) -> int:
        """The most replicas that a node had."""
        return max((one.replicas[node] for one in self.samples), default=0)


def scalable(graph: Graph, most: int) -> Graph:
    """The graph with every node free to grow from one to `most` replicas, two runs each."""
    scale = Scale(
        min_replicas=1, max_replicas=most, concurrency=2, window_s=4.0, scale_down_delay_s=6.0
    )
    nodes = {
        name: Node(name, node.spec.model_copy(update={"scale": scale}), node.accepts, node.emits)
        for name, node in graph.nodes.items()
    }
    return Graph(graph.spec, nodes, graph.edges)


def work(node: Node) -> list[Frame]:
    """A run that the node's component takes: an utterance, a prompt, or a text.

    Raises:
        BadInput: it takes none of these.
    """
    if Audio in node.accepts:
        noise = np.random.default_rng(0).normal(0, 3000, 320).astype(np.int16)
        audio = [Audio(noise, 16_000, index * 20.0) for index in range(100)]
        return [SpeechStarted(1, 0.0), *audio, SpeechStopped(1, 2000.0)]
    for frame in (Prompt((Message("user", "Say something."),)), TextDelta("A sentence to speak.")):
        if type(frame) in node.accepts:
            return [frame]
    if TextInput in node.accepts:
        return [TextInput("A sentence to embed.")]
    raise BadInput("takes neither audio nor a prompt nor a text", where=node.name)


async def measure(
    graph: Graph, node: str, *, runtime: str = "workers", runs: int = 6, seconds: float = 20.0
) -> ScaleResult:
    """Keep `runs` runs going at one node for `seconds`, then watch for as long without any.

    Raises:
        BadInput: the graph has no such node.
    """
    if node not in graph.nodes:
        raise BadInput(f"no node {node!r}; {nearest(node, list(graph.nodes))}", where="scaling")
    made = runtime_of(runtime, graph)
    result, frames = ScaleResult(node, runtime), work(graph.nodes[node])
    await made.start()
    try:
        begin_s = time.monotonic()
        for load in (0, runs, 0):
            lasts_s = seconds if load else seconds / 4 if not result.samples else seconds
            until_s = time.monotonic() + lasts_s
            callers = [
                asyncio.create_task(_keep_asking(made, node, frames, until_s, result, number))
                for number in range(load)
            ]
            while time.monotonic() < until_s:
                counts = {
                    one.node: sum(replica.state in ("ready", "running") for replica in one.replicas)
                    for one in made.status()
                }
                result.samples.append(Sample(time.monotonic() - begin_s, load, counts))
                await asyncio.sleep(LOOK_S)
            await asyncio.gather(*callers)
    finally:
        await made.close()
    return result


async def _keep_asking(
    made: Runtime,
    node: str,
    frames: list[Frame],
    until_s: float,
    result: ScaleResult,
    number: int,
) -> None:
    async def source() -> AsyncIterator[Frame]:
        for frame in frames:
            yield frame

    while time.monotonic() < until_s:
        try:
            async with closing(made.call(node, source(), Context(f"load {number}"))) as answers:
                async for _ in answers:
                    pass
        except MotetError:
            result.failed += 1


def svg(result: ScaleResult, width: int = 720, height: int = 240) -> str:
    """The replicas of every node over time, as a picture; the load is the grey area."""
    last_s = max(one.at_s for one in result.samples) or 1.0
    top = max(2, *(result.most(node) for node in result.samples[0].replicas))
    left, right, low, high = 40, width - 110, height - 30, 20

    def x(at_s: float) -> float:
        return left + at_s / last_s * (right - left)

    def y(count: float) -> float:
        return low - count / top * (low - high)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    loaded = [one.at_s for one in result.samples if one.load]
    if loaded:
        begin, end = x(loaded[0]), x(loaded[-1])
        parts.append(
            f'<rect x="{begin:.1f}" y="{high}" width="{end - begin:.1f}" height="{low - high}"'
            ' fill="#eeeeee"/>'
        )
        parts.append(f'<text x="{begin + 6:.1f}" y="{high + 14}">load on {result.node}</text>')
    for count in range(top + 1):
        parts.append(f'<text x="{left - 18}" y="{y(count) + 4:.1f}">{count}</text>')
    parts.append(f'<text x="{left}" y="{height - 8}">replicas over {last_s:.0f} s</text>')
    for number, node in enumerate(result.samples[0].replicas):
        colour = COLOURS[number % len(COLOURS)]
        # Lines that lie on each other are told apart by a small shift.
        shift = number * 2.0
        before = result.samples[0].replicas[node]
        points = [f"{left},{y(before) - shift:.1f}"]
        for one in result.samples:
            if (count := one.replicas[node]) != before:
                points += [f"{x(one.at_s):.1f},{y(each) - shift:.1f}" for each in (before, count)]
                before = count
        points.append(f"{right},{y(before) - shift:.1f}")
        line = " ".join(points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{right + 10}" y="{high + 14 + number * 18}" fill="{colour}">{node}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
