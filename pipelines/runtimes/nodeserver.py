"""One component served to other hosts: the hop on one port, gRPC health for probes on another."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ...components.base import Resources
from ...components.errors import ComponentFailed, MotetError
from ...components.wire import motet_pb2 as pb
from ..graph import Node
from .base import component_of
from .link import LinkSettings
from .local import Place, make
from .mux import HopServer, MutualTls

logger = logging.getLogger("motet")
Health = health_pb2.HealthCheckResponse
LINK = LinkSettings(heartbeat_s=1.0, patience_s=10.0)
SETTLE_S = 0.5
"""How long there must be no run before the end: one may be under way from a peer that hasn't heard
of the drain yet.
"""
REPORT_S = 0.25
"""How often peers are told of a load that has changed: several may share the replica."""
STARTUP, READINESS, LIVENESS = "startup", "readiness", "liveness"


class NodeServer:
    """Serves runs of one node until SIGTERM, then finishes what runs within `grace_s`.

    Health services: "startup" once the component is loaded, "readiness" while it takes runs,
    "liveness" (and "") while the process lives, busy or not.
    """

    def __init__(
        self,
        node: Node,
        resources: Resources,
        *,
        tls: MutualTls | None = None,
        grace_s: float = 3600.0,
    ) -> None:
        self._place = Place(node, make(node, resources))
        self._grace_s = grace_s
        self._state = pb.Status.LOADING
        self._over = asyncio.Event()
        self._server = HopServer(
            self._place.run,
            node=node.name,
            component=component_of(node.spec),
            settings=LINK,
            tls=tls,
            on_drain=self.drain,
        )
        self._health: Any = _untyped(health).aio.HealthServicer()

    async def serve(
        self, address: str, *, health_address: str | None = None, signals: bool = True
    ) -> None:
        """Listen, load, and serve until drained.

        Health is served on `health_address`, in the clear: Kubernetes' probes speak no TLS.

        Raises:
            MotetError: the component can't be loaded, or the address be bound.
        """
        async with AsyncExitStack() as ends:
            ends.push_async_callback(self._place.component.close)
            ends.push_async_callback(self._server.stop)
            if health_address:
                await ends.enter_async_context(_health_server(health_address, self._health))
            bound = await self._server.start(address)
            logger.info("%s at %s", self._place.node.name, bound)
            await self._say(Health.SERVING, LIVENESS, "")
            await self._say(Health.NOT_SERVING, STARTUP, READINESS)
            loop = asyncio.get_running_loop()
            if signals:
                for name in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(name, self.drain)
            await self._load()
            await ends.enter_async_context(self._reporting())
            await self._over.wait()
            await self._finish()

    @property
    def active(self) -> int:
        """Runs that it serves now."""
        return self._server.active

    async def _say(self, status: Any, *services: str) -> None:
        for service in services:
            await self._health.set(service, status)

    async def _load(self) -> None:
        try:
            await self._place.load()
        except MotetError as error:
            self._server.report(
                pb.Status(state=pb.Status.FAILED, code=error.code, message=str(error))
            )
            raise
        self._state = pb.Status.READY
        self._server.report(self._status())
        await self._say(Health.SERVING, STARTUP, READINESS)

    @asynccontextmanager
    async def _reporting(self) -> AsyncGenerator[None]:
        task = asyncio.create_task(self._report_often(), name=f"load of {self._place.node.name}")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            if (status := self._status()) != self._server.status:
                self._server.report(status)

    def _status(self) -> pb.Status:
        busy = self._place.component.utilisation() if self._place.loaded else None
        return pb.Status(
            state=self._state, load_s=self._place.load_s, active=self.active, utilisation=busy
        )

    def drain(self) -> None:
        """Take nothing more; peers place their next runs elsewhere."""
        self._state = pb.Status.DRAINING
        self._server.report(self._status())
        self._over.set()

    async def _finish(self) -> None:
        await self._say(Health.NOT_SERVING, READINESS)
        deadline_s = time.monotonic() + self._grace_s
        idle_s = time.monotonic()
        while time.monotonic() < min(deadline_s, idle_s + SETTLE_S):
            await asyncio.sleep(0.1)
            if self.active:
                idle_s = time.monotonic()


@asynccontextmanager
async def _health_server(address: str, servicer: Any) -> AsyncGenerator[None]:
    """A server of health alone, in the clear.

    Raises:
        ComponentFailed: the address can't be bound.
    """
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    adds: Any = health_pb2_grpc
    adds.add_HealthServicer_to_server(servicer, server)
    try:
        try:
            server.add_insecure_port(address)
        except RuntimeError as error:
            raise ComponentFailed(f"can't listen on {address}: {error}") from error
        await server.start()
        yield
    finally:
        await server.stop(0)


def _untyped(module: Any) -> Any:
    return module
