"""The remote runtime: every component behind a name, as `motet deploy kubernetes` sets it up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

from ...components.base import Context, Resources, closing
from ...components.errors import Flaw, SpecError, nearest
from ...components.frames import Frame, Prompt
from ..graph import Graph
from ..pool import Pool
from ..routing import power_of_two
from .base import NodeStatus
from .edge import DEFAULT_WINDOW
from .fellows import Beside
from .fleet import Fleet, Remote
from .local import setup_of
from .moving import hosted
from .mux import MutualTls
from .workers import peek

PATIENCE_S = 900.0


class RemoteRuntime:
    """Runs each node of a graph on the replicas behind its target, "HOST:PORT".

    Starting them, and how many there are, is somebody else's work: Kubernetes', say. Other gateways
    may use the same replicas: each says how much it serves in all.
    """

    def __init__(
        self,
        graph: Graph,
        targets: Mapping[str, str],
        *,
        tls: MutualTls | None = None,
        patience_s: float = PATIENCE_S,
        version: str = "1",
        before: RemoteRuntime | None = None,
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
        self._targets = targets
        self._tls = tls
        self._patience_s = patience_s
        self._open = False
        self._fleets: dict[str, Fleet] = {}
        for name, node in graph.nodes.items():
            old = before._fleets.get(name) if before is not None else None
            if old is not None and old.node.spec == node.spec:
                self._fleets[name] = old
                continue
            pool = Pool(
                node.spec.scale,
                node.spec.queue,
                concurrency=setup_of(node, Resources()).concurrency,
                where=name,
                pick=power_of_two(random.random),
            )
            self._fleets[name] = Fleet(node, pool, targets[name], tls=tls, version=version)

    def successor(self, graph: Graph, version: str, *, fresh: bool = False) -> RemoteRuntime:
        """See `Runtime.successor`. What a component is built from can't change here: its replicas
        read their own file.
        """
        flaws: list[Flaw] = []
        for name in graph.nodes.keys() & self.graph.nodes.keys():
            old, new = self.graph.nodes[name].spec, graph.nodes[name].spec
            for part in ("use", "model", "options"):
                if getattr(old, part) != getattr(new, part):
                    why = "its replicas run elsewhere; change it there (`motet node`)"
                    flaws.append(Flaw(f"nodes.{name}.{part}", why))
        if flaws:
            raise SpecError(flaws, file=graph.name)
        return RemoteRuntime(
            graph,
            self._targets,
            tls=self._tls,
            patience_s=self._patience_s,
            version=version,
            before=None if fresh else self,
        )

    async def start(self) -> None:
        """Connect, and wait for a first replica of every node that is to have one.

        Raises:
            ComponentFailed: there was none in time.
        """
        self._open = True
        for fleet in self._fleets.values():
            fleet.open()
        try:
            for fleet in self._fleets.values():
                if fleet.pool.scale.min_replicas:
                    await fleet.settled(self._patience_s)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection that no other runtime has. Idempotent."""
        if self._open:
            self._open = False
            await asyncio.gather(*(fleet.release() for fleet in self._fleets.values()))

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component on one of its replicas; see `Runtime.call`."""
        fleet = self._fleets[node]
        prefix = ""
        if Prompt in fleet.node.accepts:
            frames, prefix = await peek(frames)

        def lease(wait: bool) -> AbstractAsyncContextManager[Remote]:
            return fleet.place(context, prefix, wait=wait)

        def beside(host: str) -> Beside:
            lend = partial(fleet.place, context, wait=False, beside=host)
            return Beside(node, lend, context, DEFAULT_WINDOW)

        window = DEFAULT_WINDOW
        answers = hosted(self.graph, node, frames, context, lease, window=window, beside=beside)
        async with closing(answers):
            async for frame in answers:
                yield frame

    @property
    def ready(self) -> bool:
        """Whether every node can take a call now."""
        fleets = self._fleets.values()
        return self._open and all(fleet.alive and fleet.pool.can_serve for fleet in fleets)

    def status(self) -> list[NodeStatus]:
        """How the nodes are now."""
        return [fleet.status() for fleet in self._fleets.values()]
