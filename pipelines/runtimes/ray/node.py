"""One node of a graph on Ray: its Serve application, and the leases of its replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from ....components.base import Context, Setup
from ....components.errors import ComponentFailed, DeadlineExceeded, Overloaded
from ...graph import Node
from ..base import NodeStatus, ReplicaStatus
from ..mux import MutualTls
from .api import DeploymentUnavailableError, RayActorError, RayError, job, serve
from .deployment import app_of, options
from .host import RayHost, RayHosts
from .leases import Granted, Leases
from .replica import Replica

AGAIN_S = 0.1
BESIDE_S = 2.0


class RayNode:
    """Holds leases of the node's replicas. Versions of a pipeline may share one: `users` counts
    the open runtimes that have it.
    """

    def __init__(
        self,
        pipeline: str,
        node: Node,
        setup: Setup,
        *,
        drain_s: float,
        tls: MutualTls | None,
        version: str = "1",
        app: str = "",
    ) -> None:
        self.pipeline = pipeline
        self.node = node
        self.setup = setup
        self.version = version
        self.users = 0
        self.ours = False
        self.app = app or app_of(pipeline, node.name)
        self._drain_s = drain_s
        self._tls = tls
        name = "motet-" + pipeline.replace(".", "-").replace("_", "-")
        self._hosts = RayHosts(replace(tls, name=name) if tls is not None else None)
        self._handle: Any = None
        self._states: Mapping[str, str] = {}
        self._active = self._refused = self._asked_beside = 0
        self._unreached = ""
        self._leases = Leases(node.spec.queue, self._first_that_lives, where=node.name)

    @property
    def deployed(self) -> bool:
        """Whether the application was run."""
        return self._handle is not None

    def bound(self, *, part: str = "") -> Any:
        """The application; the replicas of a `part` go to the pods that are made for it alone."""
        settings = options(self.node, self.setup, drain_s=self._drain_s, part=part)
        made = serve.deployment(name=self.node.name, **settings)(Replica)
        return made.bind(self.node.spec.use, self.setup, self._tls)

    def target(self, server: str) -> Any:
        """The application, as `serve.run_many` takes it, under a name that is the server's own: it
        is taken down with the last runtime that has it.
        """
        self.ours = True
        self.app = app_of(self.pipeline, self.node.name, server=server, version=self.version)
        return serve.RunTarget(self.bound(), name=self.app, route_prefix=None)

    def runs(self, handle: Any) -> None:
        """The application runs and is called by this handle."""
        self._handle = handle.options(stream=True)

    def saw(self, states: Mapping[str, str]) -> None:
        """These are its replicas now, by id, with their states."""
        self._states = states
        self._hosts.saw(states)

    @asynccontextmanager
    async def lease(self, context: Context, *, wait: bool = True) -> AsyncGenerator[RayHost]:
        """Hold a lease of a replica; its end revokes it. Without `wait` only a place is taken that
        is known to be free, however long Ray takes to grant it.

        Raises:
            Overloaded: the queue is full, no place came free in time, or (unless `wait`) none is.
            DeadlineExceeded: the context's deadline passed.
            ComponentFailed: no replica can be had.
        """
        queue, left_s = self.node.spec.queue, context.remaining_s()
        granted = await self._granted(
            context,
            bound=queue.bound if wait else 0,
            patience_s=queue.max_wait_s if left_s is None else min(left_s, queue.max_wait_s),
        )
        host = granted.host
        self._active += 1
        host.leases += 1
        try:
            yield host
        finally:
            host.leases -= 1
            self._active -= 1
            # Nothing is awaited before: a run that is cancelled twice would leave it held.
            granted.held.cancel()

    @asynccontextmanager
    async def lease_beside(self, host: str) -> AsyncGenerator[RayHost]:
        """Hold a lease of another replica than `host`, where one has a place known to be free.

        Raises:
            Overloaded: none has.
        """
        if len(self._leases) or self._free_beside(host) <= self._asked_beside:
            raise Overloaded("no place is free now", where=self.node.name)
        self._asked_beside += 1
        # Those of the host itself are held until another's comes, so that Ray looks elsewhere.
        own: list[Granted] = []
        try:
            async with asyncio.timeout(BESIDE_S):
                while (granted := await self._first_that_lives()).host.name == host:
                    own.append(granted)
        except (TimeoutError, RayError, DeploymentUnavailableError, StopAsyncIteration) as error:
            raise Overloaded(f"no other replica: {error}", where=self.node.name) from error
        finally:
            self._asked_beside -= 1
            for one in own:
                one.held.cancel()
        granted.host.leases += 1
        self._active += 1
        try:
            yield granted.host
        finally:
            granted.host.leases -= 1
            self._active -= 1
            granted.held.cancel()

    @property
    def _free(self) -> int:
        """Places on running replicas that this process hasn't taken."""
        return self._free_beside("")

    def _free_beside(self, host: str) -> int:
        states = self._states.items()
        ready = [one for one, state in states if state == "ready" and one != host]
        places = (self.setup.concurrency - self._hosts.leases(one) for one in ready)
        return sum(max(0, free) for free in places)

    async def _granted(self, context: Context, *, bound: int, patience_s: float) -> Granted:
        """Wait for a lease, as long as the queue and the deadline allow."""
        where = self.node.name
        if len(self._leases) >= self._free + bound:
            self._refused += 1
            raise Overloaded("the queue is full", where=where, retry_after_s=1)
        try:
            async with asyncio.timeout(patience_s):
                return await self._leases.get(context)
        except TimeoutError as error:
            self._refused += 1
            left_s = context.remaining_s()
            if left_s is not None and left_s <= 0:
                raise DeadlineExceeded("the deadline passed in the queue", where=where) from error
            why = f"; {self._unreached}" if self._unreached else ""
            raise Overloaded(f"no place came free in {patience_s:g} s{why}", where=where) from error
        except (RayError, DeploymentUnavailableError, StopAsyncIteration) as error:
            raise ComponentFailed(f"no replica: {error}", where=where) from error

    async def _first_that_lives(self) -> Granted:
        """Ask until the lease is one of a replica that answers and stays: Ray may not know yet
        that one is dead or going, and nothing has been sent to it, so to ask again is safe.
        """
        while True:
            held: Any = self._handle.lease.remote(job())
            try:
                host = await self._hosts.connected(*await anext(aiter(held)))
                self._unreached = ""
                if not host.draining.is_set():
                    return Granted(held, host)
            except (RayActorError, ComponentFailed) as error:
                self._unreached = f"the last one granted can't be reached: {error}"
                await asyncio.sleep(AGAIN_S)
            except BaseException:
                held.cancel()
                raise
            held.cancel()

    @property
    def ready(self) -> bool:
        """Whether a replica runs, or none is needed."""
        return self.deployed and (
            "ready" in self._states.values() or not self.node.spec.scale.min_replicas
        )

    def status(self) -> NodeStatus:
        """How it was when last looked at; runs are those of this process."""
        name = self.node.name
        replicas = tuple(
            ReplicaStatus(f"{name}-{one}", state, self._hosts.leases(one), 0.0, self.version)
            for one, state in self._states.items()
        )
        return NodeStatus(
            node=name,
            use=self.node.spec.use,
            replicas=replicas,
            active=self._active,
            queued=len(self._leases),
            concurrency=self.setup.concurrency,
            refused=self._refused,
            version=self.version,
        )

    async def close(self) -> None:
        """Close the connections; runs that wait fail. Idempotent."""
        await self._leases.close()
        await self._hosts.close()

    def forget(self) -> None:
        """End the handle, whose threads would go on asking a cluster that was left. Blocks."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.shutdown()
