"""Waits for connections on one address, and serves each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Sequence
from typing import Any

from ...components.errors import ComponentFailed, MotetError
from .carrier import UNIX, Carrier, Serve, host_and_port, why
from .edge import ProtocolFault
from .link import BATCH_BYTES, LinkSettings
from .mutualtls import MutualTls

logger = logging.getLogger("motet")
_LEAST_S = 0.5
_BACKLOG = 100


class Listener:
    """On "unix:PATH" or "HOST:PORT"; each connection is served until `serve` returns or raises.

    It accepts connections itself: so a handshake that fails is an error here, with its reason,
    where asyncio's servers keep quiet.
    """

    def __init__(
        self, address: str, serve: Serve, settings: LinkSettings, tls: MutualTls | None
    ) -> None:
        self._address = address
        self._serve = serve
        self._settings = settings
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: dict[asyncio.Task[None], socket.socket] = {}

    async def start(self) -> str:
        """Listen; returns the address bound, which has a port where 0 was given.

        Raises:
            BadInput: it is no address, or the certificates can't be read.
            ComponentFailed: the address can't be bound.
        """
        if self._tls is not None:
            self._tls.server()
        try:
            found = await self._bound()
        except OSError as error:
            raise ComponentFailed(f"can't listen on {self._address}: {why(error)}") from error
        if not self._address.startswith(UNIX):
            host = self._address.rpartition(":")[0]
            self._address = f"{host}:{found[0].getsockname()[1]}"
        for one in found:
            one.setblocking(False)
            task = asyncio.create_task(self._accept(one), name=f"accepts {self._address}")
            self._accepting[task] = one
        return self._address

    async def _bound(self) -> list[socket.socket]:
        if self._address.startswith(UNIX):
            return [_unix(self._address.removeprefix(UNIX))]
        host, port = host_and_port(self._address)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # With port 0, each of the name's addresses would be given a port of its own.
        return _tcp([(entry[0], entry[4]) for entry in (found if port else found[:1])])

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                logger.error("%s can't accept a connection: %s", self._address, why(error))
                await asyncio.sleep(1)
                continue
            task = asyncio.create_task(self._one(connection), name=f"serves {self._address}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _one(self, connection: socket.socket) -> None:
        peer = "a peer"
        carrier = None
        try:
            if connection.family != socket.AF_UNIX:
                peer = "{}:{}".format(*connection.getpeername())
            carrier = await self._carrier(connection)
            await carrier.greet(peer, self._settings.patience_s)
            await self._serve(carrier)
        except OSError as error:
            logger.warning("%s, from %s: %s", self._address, peer, why(error))
        except MotetError as error:
            if carrier is None or isinstance(error, ProtocolFault):
                logger.warning("%s, from %s: %s", self._address, peer, error)
            if carrier is not None:
                carrier.part(error)
        finally:
            if carrier is None:
                connection.close()
            else:
                await carrier.close()

    async def _carrier(self, connection: socket.socket) -> Carrier:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=BATCH_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        if self._tls is None:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        else:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=await asyncio.to_thread(self._tls.server),
                ssl_handshake_timeout=self._settings.patience_s,
            )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return Carrier(reader, writer, self._settings)

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, close those there are within `grace_s`. Idempotent."""
        await _end(list(self._accepting))
        for listening in self._accepting.values():
            listening.close()
        self._accepting.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(grace_s, _LEAST_S))
        await _end(list(self._tasks))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _tcp(addresses: Sequence[tuple[int, tuple[Any, ...]]]) -> list[socket.socket]:
    """Sockets that listen on all of them, or on none.

    Raises:
        OSError: one of them can't be bound.
    """
    bound: list[socket.socket] = []
    try:
        for family, address in addresses:
            bound.append(socket.create_server(address, family=family, backlog=_BACKLOG))
    except OSError:
        for one in bound:
            one.close()
        raise
    return bound


def _unix(path: str) -> socket.socket:
    """A socket that listens on a path; one that is left there of before goes.

    Raises:
        OSError: it can't be bound.
    """
    if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
        os.remove(path)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(path)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
