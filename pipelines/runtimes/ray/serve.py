"""The Ray runtime: one Serve deployment per component, sessions by leases, frames by the hop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

from ....components.base import Context, closing
from ....components.errors import ComponentFailed
from ....components.frames import Frame
from ...graph import Graph, Node
from ..base import NodeStatus, refuse, share_cores
from ..edge import DEFAULT_WINDOW
from ..fellows import Beside
from ..local import setup_of
from ..moving import hosted
from ..mux import MutualTls
from .api import RayError, replicas, serve
from .cluster import CLUSTER
from .deployment import check
from .host import RayHost
from .node import RayNode

POLL_S = 1.0


class RayRuntime:
    """Runs each node of a graph as a Serve application on a Ray cluster.

    `address` is the cluster's ("auto": the one of this machine), None starts one here for itself.
    `tls` is what head and replicas show each other, for the name "motet-PIPELINE"; without it
    frames travel in the clear.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        address: str | None = None,
        tls: MutualTls | None = None,
        version: str = "1",
        before: RayRuntime | None = None,
        fresh: bool = False,
    ) -> None:
        check(graph)
        self.graph = graph
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._tls = tls
        self._open = False
        self._number = before._number if before is not None else CLUSTER.number()
        self._closing = asyncio.Event()
        self._poll: asyncio.Task[None] | None = None
        self._version = version
        self._shares = share_cores(graph, float(os.cpu_count() or 1))
        self._nodes: dict[str, RayNode] = {}
        for name, node in graph.nodes.items():
            setup = setup_of(node, self._shares[name])
            old = before._nodes.get(name) if before is not None and not fresh else None
            same = old is not None and (old.node.spec, old.setup) == (node.spec, setup)
            self._nodes[name] = old if old is not None and same else self._node(node)

    def _node(self, node: Node, *, app: str = "") -> RayNode:
        return RayNode(
            self.graph.name,
            node,
            setup_of(node, self._shares[node.name]),
            drain_s=self.graph.spec.sessions.max_age_s,
            tls=self._tls,
            version=self._version,
            app=app,
        )

    def successor(
        self, graph: Graph, version: str, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> RayRuntime:
        """See `Runtime.successor`."""
        refuse(targets, graph)
        return RayRuntime(
            graph,
            address=self._address,
            tls=self._tls,
            version=version,
            before=self,
            fresh=fresh,
        )

    async def start(self) -> None:
        """Join or start the cluster and deploy every node.

        Raises:
            ComponentFailed: a deployment didn't come up; what it said is in the message.
        """
        self._open = True
        CLUSTER.users += 1
        for node in self._nodes.values():
            node.users += 1
        try:
            await CLUSTER.do(self._deploy)
            await self._look()
        except BaseException:
            await self.close()
            raise
        self._poll = asyncio.create_task(self._look_often(), name="ray status")

    def _deploy(self) -> None:
        CLUSTER.join(self._address)
        CLUSTER.sweep()
        server = CLUSTER.server(self._number)
        nodes = [node for node in self._nodes.values() if not node.deployed]
        if not nodes:
            return
        try:
            handles = serve.run_many([node.target(server) for node in nodes])
        except RuntimeError as error:
            where = self.graph.name
            raise ComponentFailed(f"the deployment failed: {error}", where=where) from error
        for node, handle in zip(nodes, handles, strict=True):
            node.runs(handle)

    async def _look_often(self) -> None:
        while not self._closing.is_set():
            # The controller may be restarting; what was seen last stands until it answers.
            with suppress(RayError, TimeoutError, ValueError):
                await self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._closing.wait()

    async def _look(self) -> None:
        nodes = list(self._nodes.values())
        seen = await CLUSTER.do(lambda: replicas({node.app: node.node.name for node in nodes}))
        for node in nodes:
            node.saw(seen.get(node.app, {}))

    async def close(self) -> None:
        """Take down the applications that no other runtime has, and with the last of them the
        cluster, if it was started here. Idempotent.
        """
        if not self._open:
            return
        self._open = False
        self._closing.set()
        if self._poll is not None:
            await asyncio.gather(self._poll, return_exceptions=True)
            self._poll = None
        gone: list[RayNode] = []
        for node in self._nodes.values():
            node.users -= 1
            if not node.users:
                gone.append(node)
        await asyncio.gather(*(node.close() for node in gone))
        await CLUSTER.release(gone)

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component on a leased replica; see `Runtime.call`."""
        place = self._nodes[node]

        def lease(wait: bool) -> AbstractAsyncContextManager[RayHost]:
            return place.lease(context, wait=wait)

        def beside(host: str) -> Beside | None:
            if place.node.spec.scale.max_replicas == 1:
                return None
            return Beside(node, partial(place.lease_beside, host), context, DEFAULT_WINDOW)

        window = DEFAULT_WINDOW
        answers = hosted(self.graph, node, frames, context, lease, window=window, beside=beside)
        async with closing(answers):
            async for frame in answers:
                yield frame

    @property
    def ready(self) -> bool:
        """Whether every node has a running replica, or may have none."""
        return self._open and all(node.ready for node in self._nodes.values())

    def status(self) -> list[NodeStatus]:
        """How the nodes were when last looked at; runs are those of this process."""
        return [node.status() for node in self._nodes.values()]
