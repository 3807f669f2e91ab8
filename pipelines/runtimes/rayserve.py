"""The Ray runtime: one Serve deployment per component, sessions by leases, frames by the hop."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from ...components.base import Context, closing
from ...components.errors import ComponentFailed, DeadlineExceeded, MotetError, Overloaded
from ...components.frames import Frame
from ..graph import Graph
from .base import NodeStatus, ReplicaStatus, share_cores
from .edge import DEFAULT_WINDOW
from .local import setup_of
from .mux import Hop, MutualTls
from .rayapi import BackPressureError, DeploymentUnavailableError, RayError, ray, serve
from .raycluster import App, Cluster
from .raydeploy import check

POLL_S = 1.0


class RayRuntime:
    """Runs each node of a graph as a Serve application on a Ray cluster.

    `address` is the cluster's ("auto": the one of this machine), None starts one here for itself.
    `tls` is what head and replicas show each other; without it frames travel in the clear.
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
        if before is not None:
            self._cluster = before._cluster
        else:
            self._cluster = Cluster(address or os.environ.get("RAY_ADDRESS"))
        self._first = before is None
        self._open = False
        self._tls = tls
        self._hops: dict[str, Hop] = {}
        self._opening = asyncio.Lock()
        self._closing = asyncio.Event()
        self._active: Counter[str] = Counter()
        self._queued: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._states: dict[str, dict[str, int]] = {}
        self._poll: asyncio.Task[None] | None = None
        shares = share_cores(graph, float(os.cpu_count() or 1))
        self._apps: dict[str, App] = {}
        for name, node in graph.nodes.items():
            setup = setup_of(node, shares[name])
            old = before._apps.get(name) if before is not None and not fresh else None
            kept = old is not None and (old.node.spec, old.setup) == (node.spec, setup)
            self._apps[name] = old if old and kept else App(graph.name, node, setup, version)

    def successor(self, graph: Graph, version: str, *, fresh: bool = False) -> RayRuntime:
        """See `Runtime.successor`."""
        return RayRuntime(graph, tls=self._tls, version=version, before=self, fresh=fresh)

    async def start(self) -> None:
        """Join or start the cluster and deploy every node.

        Raises:
            ComponentFailed: a deployment didn't come up; what it said is in the message.
        """
        self._open = True
        self._cluster.users += 1
        for app in self._apps.values():
            app.users += 1
        try:
            await asyncio.to_thread(self._deploy)
            await self._look()
        except BaseException:
            await self.close()
            raise
        self._poll = asyncio.create_task(self._look_often(), name="ray status")

    def _deploy(self) -> None:
        self._cluster.join()
        if self._first:
            self._cluster.sweep(self.graph.name)
        for app in self._apps.values():
            app.deploy(self._tls, drain_s=self.graph.spec.sessions.max_age_s)

    async def _look_often(self) -> None:
        """Ended by `_closing`, never cancelled: a look that went on in its thread would join the
        cluster anew after it was left.
        """
        while not self._closing.is_set():
            # The controller may be restarting; what was seen last stands until it answers.
            with suppress(RayError, TimeoutError):
                await self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._closing.wait()

    async def _look(self) -> None:
        seen: Any = await asyncio.to_thread(serve.status)
        for name, made in self._apps.items():
            app = seen.applications.get(made.name)
            found = app.deployments.get(name) if app else None
            states: dict[Any, int] = found.replica_states if found else {}
            self._states[name] = {str(state): count for state, count in states.items()}

    async def close(self) -> None:
        """Take down the applications that no other runtime has, and with the last of all the
        cluster, if it was started here. Idempotent.
        """
        if not self._open:
            return
        self._open = False
        if self._poll is not None:
            self._closing.set()
            await asyncio.gather(self._poll, return_exceptions=True)
            self._poll = None
        for hop in self._hops.values():
            await hop.close()
        self._hops.clear()
        for app in self._apps.values():
            app.users -= 1
        self._cluster.users -= 1
        if ray.is_initialized():
            await asyncio.to_thread(self._undeploy)

    def _undeploy(self) -> None:
        self._cluster.leave()
        if ray.is_initialized():
            for app in self._apps.values():
                app.delete()

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        """Run the node's component on a leased replica; see `Runtime.call`."""
        async with self._lease(node, context) as hop:
            calls = hop.link.calls
            async with closing(calls.call(node, frames, context, window=DEFAULT_WINDOW)) as answers:
                async for frame in answers:
                    yield frame

    @asynccontextmanager
    async def _lease(self, node: str, context: Context) -> AsyncGenerator[Hop]:
        """Hold a lease of a replica, its end revokes it; and the connection to that replica."""
        held: Any = self._apps[node].handle.lease.remote()
        keeping: asyncio.Task[None] | None = None
        try:
            hop = await self._granted(node, held, context)
            self._active[node] += 1
            keeping = asyncio.create_task(_keep(held), name=f"lease of {node}")
            try:
                yield hop
            finally:
                self._active[node] -= 1
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
            held.cancel()

    async def _granted(self, node: str, held: Any, context: Context) -> Hop:
        """Wait for the lease, as long as the queue and the deadline allow, and connect."""
        most_s, left_s = self.graph.nodes[node].spec.queue.max_wait_s, context.remaining_s()
        self._queued[node] += 1
        try:
            async with asyncio.timeout(most_s if left_s is None else min(left_s, most_s)):
                granted = await anext(aiter(held))
                return await self._connected(granted)
        except TimeoutError as error:
            self._refused[node] += 1
            if left_s is not None and left_s <= most_s:
                raise DeadlineExceeded("the deadline passed in the queue", where=node) from error
            raise Overloaded(f"no place came free in {most_s} s", where=node) from error
        except BackPressureError as error:
            self._refused[node] += 1
            raise Overloaded("the queue is full", where=node, retry_after_s=1) from error
        except (RayError, DeploymentUnavailableError, StopAsyncIteration) as error:
            raise ComponentFailed(f"no replica: {error}", where=node) from error
        finally:
            self._queued[node] -= 1

    async def _connected(self, granted: dict[str, str]) -> Hop:
        """The connection to a replica, shared by all that hold leases of it."""
        incarnation = granted["incarnation"]
        async with self._opening:
            hop = self._hops.get(incarnation)
            if hop is not None and hop.lost is not None and not hop.lost.done():
                return hop
            for gone in [one for one, h in self._hops.items() if h.lost is None or h.lost.done()]:
                await self._hops.pop(gone).close()
            hop = Hop(granted["address"], tls=self._tls, shared_memory=False)
            hello = await hop.open()
            if hello.incarnation != incarnation:
                await hop.close()
                raise ComponentFailed(f"{granted['address']} is another replica now")
            self._hops[incarnation] = hop
            return hop

    @property
    def ready(self) -> bool:
        """Whether every node has a running replica, or may have none."""
        return self._open and all(
            self._states.get(name, {}).get("RUNNING") or not node.spec.scale.min_replicas
            for name, node in self.graph.nodes.items()
        )

    def status(self) -> list[NodeStatus]:
        """How the nodes were when last looked at; runs are those of this process."""
        found: list[NodeStatus] = []
        for name, node in self.graph.nodes.items():
            version = self._apps[name].version
            replicas = tuple(
                ReplicaStatus(f"{name}-{state.lower()}-{number}", state.lower(), 0, 0.0, version)
                for state, count in self._states.get(name, {}).items()
                for number in range(count)
            )
            found.append(
                NodeStatus(
                    node=name,
                    use=node.spec.use,
                    replicas=replicas,
                    active=self._active[name],
                    queued=self._queued[name],
                    concurrency=self._apps[name].setup.concurrency,
                    refused=self._refused[name],
                    version=version,
                )
            )
        return found


async def _keep(held: Any) -> None:
    """Take a lease's signs of life, so that they don't pile up; the hop tells when it's lost."""
    with suppress(RayError, MotetError):
        async for _ in held:
            pass
