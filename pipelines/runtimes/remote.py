"""The remote runtime: every component behind a name, as `motet deploy kubernetes` sets it up."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

from ...components.base import Context, Resources, closing
from ...components.errors import Flaw, SpecError, nearest
from ...components.frames import Frame, Prompt
from ..graph import Graph
from ..pool import Pool
from ..routing import power_of_two
from .base import BUILT_FROM, NodeStatus
from .edge import DEFAULT_WINDOW
from .fellows import Beside
from .fleet import Fleet, Remote
from .local import setup_of
from .moving import hosted
from .mux import MutualTls
from .workers import peek

PATIENCE_S = 900.0
BESIDE_S = 60.0
"""How long a later version waits for replicas, which are to be there before it."""


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
        flaws += [
            Flaw(f"targets.{name}", f"is to be HOST:PORT, got {place!r:.80}")
            for name, place in targets.items()
            if not re.fullmatch(r"\S+:\d{1,5}", place)
        ]
        if flaws:
            raise SpecError(flaws, file=graph.name)
        self.graph = graph
        self._targets = targets
        self._tls = tls
        self._patience_s = patience_s
        self._open = False
        self._named: frozenset[str] = frozenset()
        self._fleets: dict[str, Fleet] = {}
        for name, node in graph.nodes.items():
            old = before._fleets.get(name) if before is not None else None
            if old is not None and (old.node.spec, old.target) == (node.spec, targets[name]):
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

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> RemoteRuntime:
        """See `Runtime.successor`. A component that is built from something else needs replicas of
        its own, beside those that run: the `targets` of these.
        """
        flaws: list[Flaw] = []
        for name in graph.nodes.keys() - targets.keys():
            old = self.graph.nodes.get(name)
            for part in BUILT_FROM:
                if old and getattr(old.spec, part) != getattr(graph.nodes[name].spec, part):
                    why = (
                        "its replicas run elsewhere, as they are; start some with the new file"
                        " beside them (`motet node`), then a canary that names them:"
                        f" motet canary start {graph.name} --targets {name}=HOST:PORT"
                    )
                    flaws.append(Flaw(f"nodes.{name}.{part}", why))
        if flaws:
            raise SpecError(flaws, file=graph.name)
        kept = {name: place for name, place in self._targets.items() if name in graph.nodes}
        made = RemoteRuntime(
            graph,
            {**kept, **targets},
            tls=self._tls,
            patience_s=min(self._patience_s, BESIDE_S),
            version=version,
            before=None if fresh else self,
        )
        made._named = frozenset(targets)
        return made

    async def start(self) -> None:
        """Connect, and wait for a first replica of every node that is to have one.

        Raises:
            ComponentFailed: there was none in time, or one that was named for this version runs
                something else.
        """
        self._open = True
        for fleet in self._fleets.values():
            fleet.open()
        try:
            for name, fleet in self._fleets.items():
                if fleet.pool.scale.min_replicas:
                    await fleet.settled(self._patience_s)
                if name in self._named:
                    fleet.check()
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
