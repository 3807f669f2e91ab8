"""The local runtime: one replica of each component in this process, its engine in threads."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from ...components import registry
from ...components.base import Component, Context, Resources, Setup, closing
from ...components.errors import ComponentFailed, DeadlineExceeded, MotetError, Overloaded
from ...components.frames import Frame
from ..graph import Graph, Node
from .base import NodeStatus, ReplicaStatus, share_cores


class Place:
    """One node's component in this process, with the bound on how many runs it serves at once."""

    def __init__(self, node: Node, component: Component) -> None:
        self.node = node
        self.component = component
        self.concurrency = component.setup.concurrency
        self.active = 0
        self.waiting = 0
        self.refused = 0
        self.load_s = 0.0
        self.loaded = False
        self._room = asyncio.Semaphore(self.concurrency)
        self._loading = asyncio.Lock()

    async def load(self) -> None:
        """Load the component once, whoever asks first; a failed load may be tried again."""
        async with self._loading:
            if self.loaded:
                return
            started = time.monotonic()
            try:
                await self.component.load()
            except MotetError:
                raise
            except Exception as error:
                raise ComponentFailed(
                    f"loading failed: {type(error).__name__}: {error}", where=self.node.name
                ) from error
            self.load_s = time.monotonic() - started
            self.loaded = True

    async def run(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the component, loading it first if nobody has; see `Runtime.call`."""
        del node
        async with self.admit(context):
            if not self.loaded:
                await self.load()
            async with closing(self.component.run(frames, context)) as answers:
                async for frame in answers:
                    yield frame

    @asynccontextmanager
    async def admit(self, context: Context) -> AsyncGenerator[None]:
        """Hold one of the places for a run, waiting in the bounded queue if all are taken."""
        queue = self.node.spec.queue
        if self._room.locked() and self.waiting >= queue.bound:
            self.refused += 1
            raise Overloaded(
                f"{self.active} runs are active and {self.waiting} wait", where=self.node.name
            )
        left = context.remaining_s()
        self.waiting += 1
        try:
            async with asyncio.timeout(
                queue.max_wait_s if left is None else min(left, queue.max_wait_s)
            ):
                await self._room.acquire()
        except TimeoutError as error:
            self.refused += 1
            if left is not None and left <= queue.max_wait_s:
                raise DeadlineExceeded(
                    "the deadline passed in the queue", where=self.node.name
                ) from error
            raise Overloaded(
                f"no place came free in {queue.max_wait_s} s", where=self.node.name
            ) from error
        finally:
            self.waiting -= 1
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
            self._room.release()


class LocalRuntime:
    """Runs every node of a graph in this process."""

    def __init__(self, graph: Graph, *, cores: float | None = None) -> None:
        self.graph = graph
        shares = share_cores(graph, cores or float(os.cpu_count() or 1))
        self._places = {
            name: Place(node, make(node, shares[name])) for name, node in graph.nodes.items()
        }

    async def start(self) -> None:
        """Load the nodes that preload, one after the other: each gets the whole machine for it."""
        try:
            for place in self._places.values():
                if place.node.spec.preload:
                    await place.load()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every component that was loaded."""
        for place in self._places.values():
            if place.loaded:
                place.loaded = False
                await place.component.close()

    def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component here; see `Runtime.call`."""
        return self._places[node].run(node, frames, context)

    def component(self, node: str) -> Component:
        """The component of a node, for what isn't a run (the voices of a TTS, say)."""
        return self._places[node].component

    @property
    def ready(self) -> bool:
        """Whether everything that preloads is loaded."""
        return all(place.loaded or not place.node.spec.preload for place in self._places.values())

    def status(self) -> list[NodeStatus]:
        """How the nodes are now."""
        return [status_of(name, place) for name, place in self._places.items()]


def status_of(name: str, place: Place) -> NodeStatus:
    """A place as the status shows it."""
    state = "ready" if place.loaded else "idle"
    replica = ReplicaStatus(f"{name}-0", state, place.active, place.load_s)
    return NodeStatus(
        node=name,
        use=place.node.spec.use,
        replicas=(replica,),
        active=place.active,
        queued=place.waiting,
        concurrency=place.concurrency,
        utilisation=place.component.utilisation(),
        refused=place.refused,
    )


def make(node: Node, resources: Resources) -> Component:
    """Build a node's component, unloaded."""
    return registry.build(node.spec.use, setup_of(node, resources))


def setup_of(node: Node, resources: Resources) -> Setup:
    """What a node's component is built from; its own default where the file sets no concurrency."""
    kind = registry.component_class(node.spec.use)
    concurrency = node.spec.scale.concurrency or kind.concurrency
    return Setup(node.name, node.spec.model, node.spec.options, resources, concurrency)
