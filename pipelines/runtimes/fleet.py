"""Replicas on other hosts, found under one name: connected as they appear, left as they drain."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from ...components.base import Context
from ...components.errors import ComponentFailed, MotetError
from ...components.frames import Frame
from ...components.wire import motet_pb2 as pb
from ..graph import Node
from ..pool import Pool
from .base import NodeStatus, ReplicaStatus, component_of
from .link import LinkSettings
from .mux import Hop, MutualTls
from .placing import Placing, clock_s

logger = logging.getLogger("motet")
LOOK_S = 2.0
LINK = LinkSettings(heartbeat_s=1.0, patience_s=10.0)


class Remote:
    """A connection to one replica. `changed` is called when it is ready, drains or is gone, and
    when it tells its load; `elsewhere` are its runs that aren't of this process.
    """

    def __init__(
        self, address: str, *, tls: MutualTls | None, changed: Callable[[Remote], None]
    ) -> None:
        self.name = address
        self.state = "starting"
        self.utilisation: float | None = None
        self.elsewhere = 0
        self.draining = asyncio.Event()
        self.load_s = 0.0
        self.error: MotetError | None = None
        self._changed = changed
        self._hop = Hop(address, settings=LINK, tls=tls, on_status=self._told)
        self._task: asyncio.Task[None] | None = None

    @property
    def component(self) -> str:
        """What it says it runs."""
        hello = self._hop.link.peer.hello
        return hello.component if hello else ""

    @property
    def silent(self) -> bool:
        """See `Serving.silent`."""
        return self._hop.link.silent

    def start(self) -> None:
        """Connect and watch in a task."""
        self._task = asyncio.create_task(self._live(), name=f"remote {self.name}")

    async def _live(self) -> None:
        try:
            await self._hop.open()
            if self._hop.lost is not None:
                await asyncio.wait([self._hop.lost])
        except MotetError as error:
            logger.info("%s: %s", self.name, error)
            self.error = error
        finally:
            self._be("gone")
            await self._hop.close()

    def _be(self, state: str) -> None:
        if state != self.state and self.state != "gone":
            self.state = state
            self._changed(self)

    def _told(self, status: pb.Status) -> None:
        self.utilisation = status.utilisation if status.HasField("utilisation") else None
        self.elsewhere = max(0, status.active - self._hop.link.calls.active)
        if status.state == pb.Status.READY:
            self.load_s = status.load_s
            if self.state == "ready":
                self._changed(self)
            self._be("ready")
        elif status.state == pb.Status.DRAINING:
            self._be("draining")

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        """Run the component there; see `Runtime.call`."""
        calls = self._hop.link.calls
        with calls.told_gone(self.name, node, lambda _: self._be("gone")):
            async for frame in calls.call(node, frames, context, window=window):
                yield frame

    def status(self, state: str, sessions: int) -> ReplicaStatus:
        """As `motet status` shows it."""
        return ReplicaStatus(self.name, state, sessions, self.load_s)

    @property
    def closed(self) -> bool:
        """Whether nothing is left of the connection."""
        return self._task is None or self._task.done()

    async def settled(self) -> None:
        """Wait until nothing is left of a connection that is gone."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class Fleet(Placing[Remote]):
    """The replicas behind one name, "HOST:PORT": looked up again and again, each address its own
    connection, so that a new one gets runs as soon as it is there. Others scale it. With `tls` each
    shows a certificate for HOST.
    """

    def __init__(
        self,
        node: Node,
        pool: Pool,
        target: str,
        *,
        tls: MutualTls | None,
        version: str = "1",
    ) -> None:
        super().__init__(node, pool, version=version)
        self.target = target
        self._host, _, self._port = target.rpartition(":")
        self._tls = replace(tls, name=self._host) if tls is not None else None
        self._leaving: set[Remote] = set()
        self._first = asyncio.Event()
        self._why = ""

    async def run(self) -> None:
        """Look up and connect until cancelled."""
        while True:
            for address in await self._addresses():
                if address not in self.replicas:
                    self._connect(address)
            self._leaving = {one for one in self._leaving if not one.closed}
            self.poke.clear()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self.poke.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(0.2)

    async def _addresses(self) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError:
            return []
        hosts = sorted({str(entry[4][0]) for entry in found})
        return [
            f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}" for host in hosts
        ]

    def _connect(self, address: str) -> None:
        remote = self.replicas[address] = Remote(address, tls=self._tls, changed=self._changed)
        self.pool.starting(address, clock_s())
        remote.start()

    def _changed(self, remote: Remote) -> None:
        if self.replicas.get(remote.name) is not remote:
            return
        if remote.state == "ready":
            self._first.set()
            self.place_all(self.pool.is_ready(remote.name, clock_s()))
            self.place_all(self.pool.told(remote.name, remote.elsewhere, clock_s()))
        elif remote.state == "draining":
            self.pool.replicas[remote.name].state = "draining"
            remote.draining.set()
        else:
            del self.replicas[remote.name]
            self._leaving.add(remote)
            self._why = str(remote.error or "the last one closed the connection")
            self.pool.lost(remote.name, clock_s(), expected=True)

    async def settled(self, patience_s: float) -> None:
        """Wait for a first replica.

        Raises:
            ComponentFailed: there was none in time.
        """
        try:
            async with asyncio.timeout(patience_s):
                await self._first.wait()
        except TimeoutError as error:
            known = "none is ready yet" if self.replicas else "its name has no address"
            raise ComponentFailed(
                f"no replica at {self.target} in {patience_s:g} s: {self._why or known}",
                where=self.node.name,
            ) from error

    def check(self) -> None:
        """See that the replicas that are there run what the pipeline file says.

        Raises:
            ComponentFailed: one runs something else.
        """
        wanted = component_of(self.node.spec)
        for one in self.replicas.values():
            if one.state == "ready" and one.component != wanted:
                raise ComponentFailed(
                    f"{one.name} runs {one.component}; the pipeline file says {wanted}",
                    where=self.node.name,
                )

    def status(self) -> NodeStatus:
        """How the node is now."""
        return replace(super().status(), target=self.target)

    async def close(self) -> None:
        """Close every connection; what waits fails."""
        await self._rest()
        self.fail_waiting(ComponentFailed("the server is stopping", where=self.node.name))
        replicas, self.replicas = list(self.replicas.values()), {}
        await asyncio.gather(*(one.settled() for one in self._leaving))
        await asyncio.gather(*(remote.close() for remote in replicas))
