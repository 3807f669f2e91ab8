"""The local runtime: one replica of each component in this process, its engine in threads."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ...components import registry
from ...components.base import Component, Context, Resources, Setup, closing
from ...components.errors import ComponentFailed, DeadlineExceeded, MotetError, Overloaded
from ...components.frames import Frame
from ..graph import Graph, Node
from ..queueing import WaitEstimate, WorkQueue
from .base import NodeStatus, ReplicaStatus, refuse, share_cores


class Place:
    """One node's component in this process, with the bound on how many runs it serves at once.

    `users` counts the open runtimes that have it.
    """

    def __init__(self, node: Node, component: Component, version: str = "1") -> None:
        self.node = node
        self.component = component
        self.version = version
        self.users = 0
        self.concurrency = component.setup.concurrency
        self.active = 0
        self.load_s = 0.0
        self.loaded = False
        self._queue: WorkQueue[asyncio.Future[None]] = WorkQueue(node.spec.queue, where=node.name)
        self._service = WaitEstimate()
        self._loading = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """Runs that wait for a place."""
        return len(self._queue)

    @property
    def refused(self) -> int:
        """Runs that the queue has refused."""
        return self._queue.refused

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

    async def release(self) -> None:
        """One runtime less has it; with the last, the component is closed."""
        self.users -= 1
        if not self.users and self.loaded:
            self.loaded = False
            await self.component.close()

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
        """Hold one of the places for a run, waiting in the node's queue if all are taken."""
        if self.active >= self.concurrency or self.waiting:
            await self._wait(context)
        else:
            self.active += 1
        started_s = time.monotonic()
        try:
            yield
        finally:
            if context.turn > 0:
                # How long a standing stream lasts says nothing of how long a turn will.
                self._service.finished(time.monotonic() - started_s)
            self._leave()

    async def _wait(self, context: Context) -> None:
        """Come back with a place, which the run that left it has handed over."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.push(
            turn,
            now_s=time.monotonic(),
            expected_wait_s=self._service.wait_s(self.waiting, self.concurrency),
            key=context.key,
            priority=context.priority,
            deadline_s=context.deadline_s,
        )
        left_s = context.remaining_s()
        longest_s = self.node.spec.queue.max_wait_s
        try:
            async with asyncio.timeout(longest_s if left_s is None else min(left_s, longest_s)):
                await turn
        except TimeoutError as error:
            self._give_up(turn)
            self._queue.refused += 1
            if left_s is not None and left_s <= longest_s:
                raise DeadlineExceeded(
                    "the deadline passed in the queue", where=self.node.name
                ) from error
            raise Overloaded(
                f"no place came free in {longest_s} s", where=self.node.name
            ) from error
        except asyncio.CancelledError:
            self._give_up(turn)
            raise

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        """Leave the queue; a place that was handed over already goes to the next."""
        if not self._queue.remove(turn) and turn.done() and not turn.cancelled():
            self._leave()

    def _leave(self) -> None:
        """Hand the place to the run whose turn it is, or leave it free."""
        while (turn := self._queue.pop()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self.active -= 1


class LocalRuntime:
    """Runs every node of a graph in this process."""

    def __init__(
        self,
        graph: Graph,
        *,
        cores: float | None = None,
        version: str = "1",
        before: LocalRuntime | None = None,
    ) -> None:
        self.graph = graph
        self._cores = cores or float(os.cpu_count() or 1)
        self._open = False
        shares = share_cores(graph, self._cores)
        self._places: dict[str, Place] = {}
        for name, node in graph.nodes.items():
            setup = setup_of(node, shares[name])
            old = before._places.get(name) if before is not None else None
            if old is not None and (old.node.spec, old.component.setup) == (node.spec, setup):
                self._places[name] = old
            else:
                self._places[name] = Place(node, make(node, shares[name]), version)

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> LocalRuntime:
        """See `Runtime.successor`."""
        refuse(targets, graph)
        before = None if fresh else self
        return LocalRuntime(graph, cores=self._cores, version=version, before=before)

    async def start(self) -> None:
        """Load the nodes that preload, one after the other: each gets the whole machine for it."""
        self._open = True
        for place in self._places.values():
            place.users += 1
        try:
            for place in self._places.values():
                if place.node.spec.preload:
                    await place.load()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every component that was loaded and that no other runtime has. Idempotent."""
        if not self._open:
            return
        self._open = False
        for place in self._places.values():
            await place.release()

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
    replica = ReplicaStatus(f"{name}-0", state, place.active, place.load_s, place.version)
    return NodeStatus(
        node=name,
        use=place.node.spec.use,
        replicas=(replica,),
        active=place.active,
        queued=place.waiting,
        concurrency=place.concurrency,
        utilisation=place.component.utilisation(),
        refused=place.refused,
        version=place.version,
    )


def make(node: Node, resources: Resources) -> Component:
    """Build a node's component, unloaded."""
    return registry.build(node.spec.use, setup_of(node, resources))


def setup_of(node: Node, resources: Resources) -> Setup:
    """What a node's component is built from; its own default where the file sets no concurrency."""
    kind = registry.component_class(node.spec.use)
    concurrency = node.spec.scale.concurrency or kind.concurrency
    return Setup(node.name, node.spec.model, node.spec.options, resources, concurrency)
