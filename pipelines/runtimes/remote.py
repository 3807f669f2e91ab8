"""The remote runtime: every component behind a name, as `motet deploy kubernetes` sets it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from ...components.base import Context, Resources, closing
from ...components.errors import Flaw, SpecError, nearest
from ...components.frames import Frame, Prompt
from ..graph import Graph
from ..pool import Pool
from .base import NodeStatus
from .edge import DEFAULT_WINDOW
from .fleet import Fleet
from .local import setup_of
from .mux import MutualTls
from .workers import peek

PATIENCE_S = 900.0


class RemoteRuntime:
    """Runs each node of a graph on the replicas behind its target, "HOST:PORT".

    Starting them, and how many there are, is somebody else's work: Kubernetes', say.
    """

    def __init__(
        self,
        graph: Graph,
        targets: Mapping[str, str],
        *,
        tls: MutualTls | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        flaws = [
            Flaw(f"nodes.{name}", f"has no target; known: {', '.join(targets) or 'none'}")
            for name in graph.nodes
            if name not in targets
        ]
        flaws += [
            Flaw(f"targets.{name}", f"is no node; {nearest(name, list(graph.nodes))}")
            for name in targets
            if name not in graph.nodes
        ]
        if flaws:
            raise SpecError(flaws, file=graph.name)
        self.graph = graph
        self._patience_s = patience_s
        self._tasks: list[asyncio.Task[None]] = []
        self._fleets: dict[str, Fleet] = {}
        for name, node in graph.nodes.items():
            pool = Pool(
                node.spec.scale,
                node.spec.queue,
                concurrency=setup_of(node, Resources()).concurrency,
                where=name,
            )
            self._fleets[name] = Fleet(node, pool, targets[name], tls=tls)

    async def start(self) -> None:
        """Connect, and wait for a first replica of every node that is to have one.

        Raises:
            ComponentFailed: there was none in time.
        """
        for name, fleet in self._fleets.items():
            self._tasks.append(asyncio.create_task(fleet.run(), name=f"finds {name}"))
        try:
            for fleet in self._fleets.values():
                if fleet.pool.scale.min_replicas:
                    await fleet.settled(self._patience_s)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(fleet.close() for fleet in self._fleets.values()))

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component on one of its replicas; see `Runtime.call`."""
        fleet = self._fleets[node]
        prefix = ""
        if Prompt in fleet.node.accepts:
            frames, prefix = await peek(frames)
        async with fleet.place(context, prefix) as remote:
            answers = remote.call(node, frames, context, DEFAULT_WINDOW)
            async with closing(answers):
                async for frame in answers:
                    yield frame

    @property
    def ready(self) -> bool:
        """Whether every node can take a call now."""
        found = bool(self._tasks) and not any(task.done() for task in self._tasks)
        return found and all(fleet.pool.can_serve for fleet in self._fleets.values())

    def status(self) -> list[NodeStatus]:
        """How the nodes are now."""
        return [fleet.status() for fleet in self._fleets.values()]
