"""The replicas of a Ray node that this process has leases of: one connection to each."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

from ....components.base import Context
from ....components.errors import ComponentFailed
from ....components.frames import Frame
from ..mux import Hop, MutualTls


class RayHost:
    """One replica: the connection that all leases of it share. `draining` is set once it goes."""

    def __init__(self, name: str, hop: Hop) -> None:
        self.name = name
        self.hop = hop
        self.leases = 0
        self.draining = asyncio.Event()

    @property
    def lost(self) -> bool:
        """Whether the connection is over."""
        return self.hop.lost is None or self.hop.lost.done()

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        """Run its component; see `Runtime.call`."""
        calls = self.hop.link.calls
        with calls.told_gone(f"replica {self.name}", node):
            async for frame in calls.call(node, frames, context, window=window):
                yield frame


class RayHosts:
    """Connects to replicas as leases of them are granted."""

    def __init__(self, tls: MutualTls | None) -> None:
        self._tls = tls
        self._hosts: dict[str, RayHost] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._states: Mapping[str, str] = {}

    async def connected(self, replica: str, doors: Sequence[tuple[str, str]]) -> RayHost:
        """The replica that a lease was granted of; the first of its doors that opens is taken.

        Raises:
            ComponentFailed: nobody serves there, or another one does.
        """
        async with self._opening[replica]:
            host = self._hosts.get(replica)
            if host is not None and not host.lost:
                return host
            await self._forget_lost()
            host = self._hosts[replica] = RayHost(replica, await self._through(doors))
            self._mark(host)
            return host

    async def _through(self, doors: Sequence[tuple[str, str]]) -> Hop:
        """A socket that this host hasn't, or another one of the same name, is passed by."""
        wrong = ComponentFailed("it has no door that opens from here")
        for address, incarnation in doors:
            _, unix, path = address.partition("unix:")
            if unix and not os.access(path, os.W_OK):
                continue
            hop = Hop(address, tls=self._tls)
            try:
                hello = await hop.open()
            except ComponentFailed as error:
                wrong = error
                continue
            if hello.incarnation == incarnation:
                return hop
            await hop.close()
            wrong = ComponentFailed(f"{address} is another replica now")
        raise wrong

    async def _forget_lost(self) -> None:
        for replica in [replica for replica, host in self._hosts.items() if host.lost]:
            self._opening.pop(replica, None)
            await self._hosts.pop(replica).hop.close()

    def saw(self, states: Mapping[str, str]) -> None:
        """These are the replicas that the cluster has, and their states."""
        self._states = states
        for host in self._hosts.values():
            self._mark(host)

    def _mark(self, host: RayHost) -> None:
        if self._states.get(host.name) == "draining":
            host.draining.set()

    def leases(self, replica: str) -> int:
        """How many leases this process has of a replica."""
        host = self._hosts.get(replica)
        return host.leases if host is not None else 0

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        hosts, self._hosts = list(self._hosts.values()), {}
        await asyncio.gather(*(host.hop.close() for host in hosts))
