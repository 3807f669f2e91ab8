"""Links between processes of one host: a unix socket, and each batch behind its length.

It costs about a third of what gRPC's stream does there, and needs none of what that is for:
names, routes, proxies and certificates.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

from ...components.errors import BadInput, ComponentFailed, MotetError
from ...components.wire import motet_pb2 as pb
from ...components.wire.faults import to_abort
from .carrier import Serve
from .edge import ProtocolFault
from .link import BATCH_BYTES, LinkSettings

_LENGTH = struct.Struct("<I")
_CLOSE_S = 0.5


class SocketCarrier:
    """One connection; see `Carrier`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, most_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._most_bytes = most_bytes

    async def write(self, batch: bytes) -> None:
        """Send a batch; see `Carrier.write`."""
        if self._writer.is_closing():
            raise ComponentFailed("the connection is closed")
        try:
            self._writer.write(_LENGTH.pack(len(batch)) + batch)
            await self._writer.drain()
        except OSError as error:
            raise ComponentFailed(f"the connection broke: {error}") from error

    async def batches(self) -> AsyncIterator[pb.Batch]:
        """The peer's batches; see `Carrier.batches`."""
        read = self._reader.readexactly
        try:
            while True:
                (length,) = _LENGTH.unpack(await read(_LENGTH.size))
                if length > self._most_bytes:
                    raise ProtocolFault(
                        f"a batch of {length} bytes was announced; the limit is {self._most_bytes}"
                    )
                yield pb.Batch.FromString(await read(length))
        except asyncio.IncompleteReadError:
            return
        except OSError as error:
            raise ComponentFailed(f"the connection broke: {error}") from error

    def part(self, reason: MotetError) -> None:
        """Tell the peer why this connection ends, if it still listens."""
        last = pb.Batch(packets=[pb.Packet(abort=to_abort(reason))]).SerializeToString()
        if not self._writer.is_closing():
            self._writer.write(_LENGTH.pack(len(last)) + last)

    async def close(self) -> None:
        """Close once all is written, soon at the latest: a peer may have stopped reading."""
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


class SocketListener:
    """Listens on a path; see `Listener`."""

    def __init__(self, path: str, serve: Serve, settings: LinkSettings) -> None:
        self._path = path
        self._serve = serve
        self._most_bytes = _most_bytes(settings)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, *, also: Callable[[Any], None] | None = None) -> str:
        """Listen; see `Listener.start`."""
        if also is not None:
            raise BadInput(f"unix:{self._path} has no room for gRPC services; give HOST:PORT")
        try:
            self._server = await asyncio.start_unix_server(
                self._connected, self._path, limit=BATCH_BYTES
            )
        except OSError as error:
            raise ComponentFailed(f"can't listen on unix:{self._path}: {error}") from error
        return f"unix:{self._path}"

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._one(reader, writer), name=f"serves {self._path}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrier = SocketCarrier(reader, writer, most_bytes=self._most_bytes)
        try:
            await self._serve(carrier)
        except MotetError as error:
            carrier.part(error)
        finally:
            await carrier.close()

    async def stop(self, grace_s: float) -> None:
        """Close; see `Listener.stop`."""
        if self._server is None:
            return
        self._server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(grace_s, _CLOSE_S))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None


async def dial(path: str, settings: LinkSettings) -> SocketCarrier:
    """Connect to the listener on a path.

    Raises:
        ComponentFailed: there is none.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=BATCH_BYTES)
    except OSError as error:
        raise ComponentFailed(f"unavailable: unix:{path}: {error.strerror or error}") from error
    return SocketCarrier(reader, writer, most_bytes=_most_bytes(settings))


def _most_bytes(settings: LinkSettings) -> int:
    return settings.max_message_bytes + 2 * BATCH_BYTES
