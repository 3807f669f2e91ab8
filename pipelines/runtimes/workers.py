"""The workers runtime: every component in processes of its own, each scaled by its own load."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

from ...components.base import Context, Setup, closing
from ...components.frames import Frame, Prompt
from ..graph import Graph, Node
from ..pool import Pool
from ..routing import prefix_of
from .base import NodeStatus, refuse, share_cores
from .crew import Crew
from .devices import visible
from .edge import DEFAULT_WINDOW
from .fellows import Beside
from .link import LinkSettings
from .local import setup_of
from .machine import Machine
from .moving import hosted
from .worker import Worker

LINK = LinkSettings(heartbeat_s=1.0, patience_s=10.0)


class WorkersRuntime:
    """Runs each node of a graph in worker processes on this machine."""

    def __init__(
        self,
        graph: Graph,
        *,
        cores: float | None = None,
        gpus: tuple[str, ...] | None = None,
        link: LinkSettings = LINK,
        drain_s: float = 30.0,
        version: str = "1",
        before: WorkersRuntime | None = None,
        fresh: bool = False,
    ) -> None:
        self.graph = graph
        self._link = link
        self._drain_s = drain_s
        self._open = False
        if before is not None:
            self._machine = before._machine
        else:
            given = visible() if gpus is None else gpus
            self._machine = Machine(cores or float(os.cpu_count() or 1), given)
        shares = share_cores(graph, self._machine.cores)
        self._setups = {name: setup_of(node, shares[name]) for name, node in graph.nodes.items()}
        self._crews: dict[str, Crew] = {}
        for name, node in graph.nodes.items():
            old = None if before is None or fresh else before._kept(node, self._setups[name])
            self._crews[name] = old or Crew(
                node, self._pool(node, drain_s), self._spawner(node), version=version
            )
        self._windows = {name: self._window(name) for name in graph.nodes}

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> WorkersRuntime:
        """See `Runtime.successor`."""
        refuse(targets, graph)
        return WorkersRuntime(
            graph,
            link=self._link,
            drain_s=self._drain_s,
            version=version,
            before=self,
            fresh=fresh,
        )

    def _kept(self, node: Node, setup: Setup) -> Crew | None:
        """The crew of a node that is the same here."""
        crew = self._crews.get(node.name)
        same = crew is not None and crew.node.spec == node.spec
        return crew if same and self._setups[node.name] == setup else None

    def _pool(self, node: Node, drain_s: float) -> Pool:
        return Pool(
            node.spec.scale,
            node.spec.queue,
            concurrency=self._setups[node.name].concurrency,
            where=node.name,
            drain_s=drain_s,
            preload=node.spec.preload,
        )

    def _window(self, name: str) -> int:
        """Frames under way to a replica: no more than the edges into its node may hold."""
        capacities = [e.settings.capacity for e in self.graph.edges if e.target == name]
        return min([DEFAULT_WINDOW, *capacities])

    def _spawner(self, node: Node) -> Callable[[Callable[[Worker], None]], Worker]:
        def spawn(changed: Callable[[Worker], None]) -> Worker:
            name = f"{node.name}-{next(self._machine.numbers)}"
            environment = self._machine.devices.take(name, node.spec.resources.gpus)

            return Worker(
                name,
                node.spec.use,
                self._setups[node.name],
                folder=self._machine.folder.path,
                environment=environment,
                link=self._link,
                changed=changed,
                ended=lambda: self._machine.devices.give_back(name),
            )

        return spawn

    async def start(self) -> None:
        """Start what is to be preloaded and wait for a first replica of each.

        Raises:
            MotetError: what the `load` of a component raised; then nothing is left running.
        """
        self._open = True
        self._machine.users += 1
        for crew in self._crews.values():
            crew.open()
        try:
            for crew in self._crews.values():
                if crew.node.spec.preload and crew.pool.scale.min_replicas:
                    await crew.settled()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop every worker process that no other runtime has. Idempotent."""
        if not self._open:
            self._machine.sweep()
            return
        self._open = False
        await asyncio.gather(*(crew.release() for crew in self._crews.values()))
        self._machine.release()

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component on one of its replicas; see `Runtime.call`."""
        crew = self._crews[node]
        prefix = ""
        if Prompt in crew.node.accepts:
            frames, prefix = await peek(frames)

        def lease(wait: bool) -> AbstractAsyncContextManager[Worker]:
            return crew.place(context, prefix, wait=wait)

        def beside(host: str) -> Beside | None:
            if crew.pool.scale.max_replicas == 1:
                return None
            lend = partial(crew.place, context, wait=False, beside=host)
            return Beside(node, lend, context, window)

        window = self._windows[node]
        answers = hosted(self.graph, node, frames, context, lease, window=window, beside=beside)
        async with closing(answers):
            async for frame in answers:
                yield frame

    @property
    def ready(self) -> bool:
        """Whether every node can take a call now."""
        crews = self._crews.values()
        return self._open and all(crew.alive and crew.pool.can_serve for crew in crews)

    def status(self) -> list[NodeStatus]:
        """How the nodes are now."""
        return [crew.status() for crew in self._crews.values()]


async def peek(frames: AsyncIterator[Frame]) -> tuple[AsyncIterator[Frame], str]:
    """The same frames, and what the first of them says about where it was served before."""
    first = await anext(frames, None)

    async def all_of_them() -> AsyncIterator[Frame]:
        if first is not None:
            yield first
            async for frame in frames:
                yield frame

    return all_of_them(), prefix_of(first) if first is not None else ""
