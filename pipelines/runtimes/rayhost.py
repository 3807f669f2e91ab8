"""The replicas of a Ray node that this process has leases of: one connection to each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping

from ...components.base import Context
from ...components.errors import ComponentFailed, MotetError
from ...components.frames import Frame
from .mux import Hop, MutualTls


class RayHost:
    """One replica: the connection that all leases of it share. `draining` is set once it goes."""

    def __init__(self, replica: str, hop: Hop) -> None:
        self.replica = replica
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
        try:
            async for frame in calls.call(node, frames, context, window=window):
                yield frame
        except MotetError as error:
            if calls.lost is not None and error is calls.lost:
                raise ComponentFailed(
                    f"replica {self.replica} is gone: {error}", where=node
                ) from error
            raise


class RayHosts:
    """Connects to replicas as leases of them are granted."""

    def __init__(self, tls: MutualTls | None) -> None:
        self._tls = tls
        self._hosts: dict[str, RayHost] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._states: Mapping[str, str] = {}

    async def connected(self, granted: Mapping[str, str]) -> RayHost:
        """The replica that a lease was granted of.

        Raises:
            ComponentFailed: nobody serves at its address, or another one does.
        """
        replica, incarnation = granted["replica"], granted["incarnation"]
        async with self._opening[replica]:
            host = self._hosts.get(replica)
            if host is not None and not host.lost:
                return host
            await self._forget_lost()
            hop = Hop(granted["address"], tls=self._tls, shared_memory=False)
            hello = await hop.open()
            if hello.incarnation != incarnation:
                await hop.close()
                raise ComponentFailed(f"{granted['address']} is another replica now")
            host = self._hosts[replica] = RayHost(replica, hop)
            self._mark(host)
            return host

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
        if self._states.get(host.replica) == "draining":
            host.draining.set()

    def leases(self, replica: str) -> int:
        """How many leases this process has of a replica."""
        host = self._hosts.get(replica)
        return host.leases if host is not None else 0

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        hosts, self._hosts = list(self._hosts.values()), {}
        await asyncio.gather(*(host.hop.close() for host in hosts))
