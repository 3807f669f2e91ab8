"""What carries a link between two processes: a socket, and each batch behind its length.

"unix:PATH" is a socket on this host, "HOST:PORT" one between hosts, with certificates on request.
Both ends say first what they speak, so that whoever reaches another kind of port is told so.

A chunk there and back takes half to two thirds of the time of a message on a bare gRPC stream, on
one host and between hosts; carried by such a stream it took one and a half times that. Flow
control, signs of life and errors are the link's own, and of what else gRPC has, nothing is needed.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from ...components.errors import BadInput, ComponentFailed, MotetError
from ...components.wire import motet_pb2 as pb
from ...components.wire.faults import to_abort
from .edge import ProtocolFault
from .link import BATCH_BYTES, LinkSettings
from .mutualtls import MutualTls

GREETING = b"motethop"
UNIX = "unix:"
_LENGTH = struct.Struct("<I")
_CLOSE_S = 0.5
_OTHERS = {
    "TLS; are both sides to show certificates?": (b"\x16\x03", b"\x15\x03"),
    "HTTP/2, as gRPC does; health has a port of its own": (b"PRI ", b"\x00\x00"),
    "HTTP": (b"HTTP/", b"GET ", b"HEAD ", b"POST "),
}


class Carrier:
    """One open connection, which begins with `greet`. `write` and `batches` are for a task each."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        settings: LinkSettings,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._most_bytes = settings.max_message_bytes + 2 * BATCH_BYTES

    async def greet(self, peer: str, patience_s: float) -> None:
        """Say what is spoken here and hear that the peer speaks it too, before anything else.

        Raises:
            ComponentFailed: the peer is silent or closes the connection.
            ProtocolFault: it speaks something else.
        """
        self._writer.write(GREETING)
        try:
            async with asyncio.timeout(patience_s):
                first = await self._reader.readexactly(len(GREETING))
        except asyncio.IncompleteReadError as error:
            first = error.partial
            if not first:
                raise ComponentFailed(f"{peer} closed without a word; {self._hint}") from error
        except TimeoutError as error:
            silent = f"{peer} has said nothing for {patience_s:g} s"
            raise ComponentFailed(f"{silent}; {self._hint}") from error
        except OSError as error:
            broke = f"{peer} broke the connection before a word: {why(error)}"
            raise ComponentFailed(f"{broke}; {self._hint}") from error
        if first != GREETING:
            for name, starts in _OTHERS.items():
                if first.startswith(starts):
                    raise ProtocolFault(f"{peer} is no hop: it speaks {name}")
            raise ProtocolFault(f"{peer} is no hop: it began with {first!r}")

    @property
    def _hint(self) -> str:
        if self._writer.get_extra_info("sslcontext") is not None:
            return "does it take this side's certificate?"
        return "is it a hop, and without certificates?"

    async def write(self, batch: bytes) -> None:
        """Send a serialized batch, waiting while the peer takes none.

        Raises:
            ComponentFailed: the connection is broken.
        """
        if self._writer.is_closing():
            raise ComponentFailed("the connection is closed")
        self._put(batch)
        try:
            await self._writer.drain()
        except OSError as error:
            raise ComponentFailed(f"the connection broke: {why(error)}") from error

    def _put(self, batch: bytes) -> None:
        self._writer.write(_LENGTH.pack(len(batch)) + batch)

    async def batches(self) -> AsyncIterator[pb.Batch]:
        """The peer's batches until it closes.

        Raises:
            ComponentFailed: the connection broke.
            ProtocolFault: a batch is too long.
        """
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
            raise ComponentFailed(f"the connection broke: {why(error)}") from error

    def part(self, reason: MotetError) -> None:
        """Tell the peer why this connection ends, if it still listens."""
        if not self._writer.is_closing():
            self._put(pb.Batch(packets=[pb.Packet(abort=to_abort(reason))]).SerializeToString())

    async def close(self) -> None:
        """Close once all is written, soon at the latest: a peer may have stopped reading."""
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


Serve = Callable[[Carrier], Awaitable[None]]


async def dial(address: str, settings: LinkSettings, tls: MutualTls | None) -> Carrier:
    """Connect to the listener at an address, within the settings' patience.

    Raises:
        BadInput: it is no address, or the certificates can't be read.
        ComponentFailed: there is none, or one side doesn't take the other's certificate.
        ProtocolFault: something else than a hop is there.
    """
    try:
        async with asyncio.timeout(settings.patience_s):
            reader, writer = await _connect(address, tls)
    except TimeoutError as error:
        silent = f"no answer in {settings.patience_s:g} s"
        raise ComponentFailed(f"unavailable: {address}: {silent}") from error
    except OSError as error:
        raise ComponentFailed(f"unavailable: {address}: {why(error)}") from error
    carrier = Carrier(reader, writer, settings)
    try:
        await carrier.greet(address, settings.patience_s)
    except BaseException:
        await carrier.close()
        raise
    return carrier


async def _connect(
    address: str, tls: MutualTls | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith(UNIX):
        path = address.removeprefix(UNIX)
        return await asyncio.open_unix_connection(path, limit=BATCH_BYTES)
    host, port = host_and_port(address)
    if tls is None:
        return await asyncio.open_connection(host, port, limit=BATCH_BYTES)
    return await asyncio.open_connection(
        host, port, limit=BATCH_BYTES, ssl=tls.client(), server_hostname=tls.name or host
    )


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of "HOST:PORT"; an IPv6 address may be in brackets.

    Raises:
        BadInput: it hasn't these parts.
    """
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF:
        raise BadInput(f"{address!r} is no address; possible: HOST:PORT, {UNIX}PATH")
    return host.removeprefix("[").removesuffix("]"), int(port)


def why(error: OSError) -> str:
    """What went wrong, in words and without the numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate doesn't hold: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, ConnectionError) and not error.args:
        return "the other side broke it off"
    return error.strerror or str(error) or type(error).__name__
