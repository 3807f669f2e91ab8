"""A component as a Ray Serve replica: leases by Ray, frames by the hop."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from ....components import registry
from ....components.base import Component, Context, Setup, closing
from ....components.frames import Frame
from ....components.wire.folders import OwnedFolder
from ..mux import HopServer, MutualTls
from .api import dead_jobs, ray, serve
from .policy import UTILISATION

LOOK_S = 5.0
"""How often leases look whether their holders live."""


class Replica:
    """Holds one component. A lease is a streaming call that stays open as long as the run: so Ray
    counts it, scales by it, and drains it. The frames go straight to its doors: a unix socket for
    whoever is on this host, unless certificates are to be shown, and a port.
    """

    async def __init__(self, use: str, setup: Setup, tls: MutualTls | None) -> None:
        self._node = setup.node
        self._id = str(serve.get_replica_context().replica_id.unique_id)
        self._dead: set[str] = set()
        self._looked_s = 0.0
        self._component: Component = await asyncio.to_thread(registry.build, use, setup)
        await self._component.load()
        self._folder = OwnedFolder("motet-ray-", Path(tempfile.gettempdir()))
        near = [] if tls is not None else [f"unix:{self._folder.path}/hop"]
        self._servers: list[HopServer] = []
        self._doors: list[tuple[str, str]] = []
        for address in (*near, f"{ray.util.get_node_ip_address()}:0"):
            server = HopServer(self._run, node=setup.node, tls=tls)
            self._doors.append((await server.start(address), server.incarnation))
            self._servers.append(server)

    async def lease(self, job: str) -> AsyncIterator[tuple[str, list[tuple[str, str]]]]:
        """Says whose it is, and its doors: where to connect, and which incarnation answers there,
        the best one first. Then it is held until it's cancelled or its holder, the `job`, has died:
        Ray goes on with calls whose callers are dead.
        """
        yield self._id, self._doors
        while job not in self._dead:
            await asyncio.sleep(LOOK_S)
            await self._look()

    async def _look(self) -> None:
        """Look who has died; once for all leases."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._dead = await asyncio.to_thread(dead_jobs)

    def check_health(self) -> None:
        """Called by Ray; a replica whose process lives and answers is well."""

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Called by Ray as often as it counts leases, for `ScalePolicy`."""
        busy = self._component.utilisation()
        return {} if busy is None else {UTILISATION: busy}

    async def _run(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        async with closing(self._component.run(frames, context)) as answers:
            async for frame in answers:
                yield frame

    async def __del__(self) -> None:
        for server in self._servers:
            await server.stop()
        self._folder.close()
        await self._component.close()
