"""The hop: all calls between two processes over one connection, by address.

"unix:PATH" is a socket on this host, "HOST:PORT" one between hosts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from ...components.errors import BadInput
from ...components.wire import motet_pb2 as pb
from ...components.wire.blobs import BlobStore
from .calls import Handler
from .carrier import UNIX, Carrier, dial
from .link import Link, LinkSettings
from .listener import Listener
from .mutualtls import MutualTls

__all__ = ["Hop", "HopServer", "MutualTls"]


def _check(address: str, tls: MutualTls | None) -> None:
    if tls is not None and address.startswith(UNIX):
        raise BadInput(f"{address} stays on this host; certificates go with HOST:PORT")


def _store(address: str, shared_memory: bool) -> BlobStore | None:
    """Shared memory only over a unix socket, whose other end is on this machine and trusted."""
    return BlobStore() if shared_memory and address.startswith(UNIX) else None


class HopServer:
    """Serves calls to `handler` on one address; every connection has its own link."""

    def __init__(
        self,
        handler: Handler,
        *,
        node: str = "",
        component: str = "",
        settings: LinkSettings | None = None,
        tls: MutualTls | None = None,
        shared_memory: bool = True,
        on_drain: Callable[[], None] | None = None,
    ) -> None:
        self.links: set[Link] = set()
        self.status = pb.Status()
        self.incarnation = secrets.token_hex(8)
        self._handler = handler
        self._node = node
        self._component = component
        self._settings = settings or LinkSettings()
        self._tls = tls
        self._shared_memory = shared_memory
        self._on_drain = on_drain
        self._store: BlobStore | None = None
        self._listener: Listener | None = None

    @property
    def active(self) -> int:
        """Calls that are open on all links."""
        return sum(link.calls.active for link in self.links)

    async def start(self, address: str) -> str:
        """Listen on "unix:PATH" or "HOST:PORT" (port 0: any); returns the address bound.

        Raises:
            ComponentFailed: the address can't be bound.
            BadInput: it is no address, a unix socket was to have certificates, or they can't be
                read.
        """
        _check(address, self._tls)
        self._store = _store(address, self._shared_memory)
        listener = Listener(address, self._serve, self._settings, self._tls)
        bound = await listener.start()
        self._listener = listener
        return bound

    async def _serve(self, carrier: Carrier) -> None:
        link = Link(
            node=self._node,
            handler=self._handler,
            store=self._store,
            settings=self._settings,
            on_drain=self._on_drain,
            incarnation=self.incarnation,
            component=self._component,
        )
        self.links.add(link)
        link.report(self.status)
        try:
            await link.run(carrier.write, carrier.batches())
        finally:
            self.links.discard(link)

    def report(self, status: pb.Status) -> None:
        """Tell every peer, and those that connect later, how this process does."""
        self.status = status
        for link in self.links:
            link.report(status)

    async def stop(self, grace_s: float = 0.0) -> None:
        """Say goodbye on every link, then close. Idempotent."""
        for link in list(self.links):
            await link.part()
        if self._listener is not None:
            await self._listener.stop(grace_s)
            self._listener = None
        if self._store is not None:
            self._store.close()


class Hop:
    """A connection to a `HopServer`: enter it, then make calls on `link.calls`.

    `lost` is done when the connection has ended, for whatever reason.
    """

    def __init__(
        self,
        address: str,
        *,
        settings: LinkSettings | None = None,
        tls: MutualTls | None = None,
        shared_memory: bool = True,
        on_status: Callable[[pb.Status], None] | None = None,
    ) -> None:
        _check(address, tls)
        self.address = address
        self._settings = settings or LinkSettings()
        self._tls = tls
        self._store = _store(address, shared_memory)
        self.link = Link(store=self._store, settings=self._settings, on_status=on_status)
        self._task: asyncio.Task[None] | None = None
        self._carrier: Carrier | None = None

    async def open(self) -> pb.Hello:
        """Connect and wait for the peer's hello.

        Raises:
            ComponentFailed: nobody serves there.
            ProtocolFault: the peer speaks another version.
        """
        try:
            self._carrier = carrier = await dial(self.address, self._settings, self._tls)
            self._task = asyncio.create_task(
                self.link.run(carrier.write, carrier.batches()), name=f"hop {self.address}"
            )
            return await self.link.greeted()
        except BaseException:
            await self.close()
            raise

    @property
    def lost(self) -> asyncio.Task[None] | None:
        """The task that moves packets; done once the connection is over."""
        return self._task

    async def close(self) -> None:
        """Say goodbye and close. Idempotent."""
        if self._task is not None:
            await self.link.part()
            await asyncio.wait([self._task], timeout=0.5)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._carrier is not None:
            await self._carrier.close()
            self._carrier = None
        if self._store is not None:
            self._store.close()

    async def __aenter__(self) -> Hop:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
