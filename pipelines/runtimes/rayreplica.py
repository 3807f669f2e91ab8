"""A component as a Ray Serve replica: leases by Ray, frames by the hop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...components import registry
from ...components.base import Component, Context, Setup, closing
from ...components.frames import Frame
from .mux import HopServer, MutualTls
from .rayapi import ray, serve

BEAT_S = 5.0
"""How soon a lease whose holder has died is given up; each sign of life costs a call of Ray's."""


class Replica:
    """Holds one component. A lease is a streaming call that stays open as long as the run: so Ray
    counts it, scales by it, and drains it; the frames go straight to the hop's address.
    """

    async def __init__(self, use: str, setup: Setup, tls: MutualTls | None) -> None:
        self._node = setup.node
        self._id = str(serve.get_replica_context().replica_id.unique_id)
        self._component: Component = await asyncio.to_thread(registry.build, use, setup)
        await self._component.load()
        self._server = HopServer(self._run, node=setup.node, tls=tls)
        host = ray.util.get_node_ip_address()
        self._address = await self._server.start(f"{host}:0")

    async def lease(self) -> AsyncIterator[dict[str, str]]:
        """First where to connect and to whom; then signs of life, until closed."""
        yield {
            "replica": self._id,
            "address": self._address,
            "incarnation": self._server.incarnation,
        }
        while True:
            await asyncio.sleep(BEAT_S)
            yield {}

    def check_health(self) -> None:
        """Called by Ray; a replica whose process lives and answers is well."""

    async def _run(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        async with closing(self._component.run(frames, context)) as answers:
            async for frame in answers:
                yield frame

    async def __del__(self) -> None:
        await self._server.stop()
        await self._component.close()
