"""The workers runtime: every component in processes of its own, each scaled by its own load."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from ...components.base import Context, closing
from ...components.frames import Frame, Prompt
from ...components.wire.folders import OwnedFolder
from ..graph import Graph, Node
from ..pool import Pool
from ..routing import prefix_of
from .base import NodeStatus, share_cores
from .crew import Crew
from .devices import Devices, visible
from .edge import DEFAULT_WINDOW
from .link import LinkSettings
from .local import setup_of
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
    ) -> None:
        self.graph = graph
        self._link = link
        self._devices = Devices(visible() if gpus is None else gpus)
        self._folder = OwnedFolder("motet-workers-", Path(tempfile.gettempdir()))
        self._numbers = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        shares = share_cores(graph, cores or float(os.cpu_count() or 1))
        self._setups = {name: setup_of(node, shares[name]) for name, node in graph.nodes.items()}
        self._crews = {
            name: Crew(node, self._pool(node, drain_s), self._spawner(node))
            for name, node in graph.nodes.items()
        }
        self._windows = {name: self._window(name) for name in graph.nodes}

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
            name = f"{node.name}-{next(self._numbers)}"
            environment = self._devices.take(name, node.spec.resources.gpus)

            return Worker(
                name,
                node.spec.use,
                self._setups[node.name],
                folder=self._folder.path,
                environment=environment,
                link=self._link,
                changed=changed,
                ended=lambda: self._devices.give_back(name),
            )

        return spawn

    async def start(self) -> None:
        """Start what is to be preloaded and wait for a first replica of each.

        Raises:
            MotetError: what the `load` of a component raised; then nothing is left running.
        """
        for crew in self._crews.values():
            name = f"scales {crew.node.name}"
            self._tasks.append(asyncio.create_task(crew.run(), name=name))
        try:
            for crew in self._crews.values():
                if crew.node.spec.preload and crew.pool.scale.min_replicas:
                    await crew.settled()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop every worker process. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(crew.close() for crew in self._crews.values()))
        self._folder.close()

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component on one of its replicas; see `Runtime.call`."""
        crew = self._crews[node]
        prefix = ""
        if Prompt in crew.node.accepts:
            frames, prefix = await peek(frames)
        async with crew.place(context, prefix) as worker:
            answers = worker.call(node, frames, context, self._windows[node])
            async with closing(answers):
                async for frame in answers:
                    yield frame

    @property
    def ready(self) -> bool:
        """Whether every node can take a call now."""
        scaled = bool(self._tasks) and not any(task.done() for task in self._tasks)
        return scaled and all(crew.pool.can_serve for crew in self._crews.values())

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
