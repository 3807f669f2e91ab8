"""The hop over gRPC: links on unix sockets or TCP, with mutual TLS on request."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import grpc

from ...components.errors import ComponentFailed, MotetError
from ...components.wire import motet_pb2 as pb
from ...components.wire.blobs import BlobStore
from .calls import Handler
from .link import BATCH_BYTES, Link, LinkSettings

METHOD = "/motet.v1.Hop/Link"


@dataclass(frozen=True, slots=True)
class MutualTls:
    """PEM files: the authority that both sides trust, and this side's certificate and key."""

    authority: Path
    certificate: Path
    key: Path

    @staticmethod
    def of(folder: Path) -> MutualTls:
        """The files of a folder, named as Kubernetes' TLS secrets name them."""
        return MutualTls(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")

    def server(self) -> grpc.ServerCredentials:
        """Credentials of a server that demands a certificate of its client."""
        pair = (self.key.read_bytes(), self.certificate.read_bytes())
        return grpc.ssl_server_credentials(
            [pair], root_certificates=self.authority.read_bytes(), require_client_auth=True
        )

    def client(self) -> grpc.ChannelCredentials:
        """Credentials of a client that shows its certificate."""
        return grpc.ssl_channel_credentials(
            self.authority.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes()
        )


def _options(settings: LinkSettings) -> list[tuple[str, Any]]:
    largest = settings.max_message_bytes + 2 * BATCH_BYTES
    return [
        ("grpc.max_send_message_length", largest),
        ("grpc.max_receive_message_length", largest),
        ("grpc.so_reuseport", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]


def _store(address: str, shared_memory: bool) -> BlobStore | None:
    """Shared memory only over a unix socket, whose other end is on this machine and trusted."""
    return BlobStore() if shared_memory and address.startswith("unix:") else None


class HopServer:
    """Serves calls to `handler` on one address; every connection has its own link."""

    def __init__(
        self,
        handler: Handler,
        *,
        node: str = "",
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
        self._settings = settings or LinkSettings()
        self._tls = tls
        self._shared_memory = shared_memory
        self._on_drain = on_drain
        self._store: BlobStore | None = None
        self._server: grpc.aio.Server | None = None

    @property
    def active(self) -> int:
        """Calls that are open on all links."""
        return sum(link.calls.active for link in self.links)

    async def start(self, address: str, *, also: Callable[[Any], None] | None = None) -> str:
        """Listen on "unix:PATH" or "HOST:PORT" (port 0: any); returns the address bound.

        `also` may add more services to the server before it starts.

        Raises:
            ComponentFailed: the address can't be bound.
        """
        self._store = _store(address, self._shared_memory)
        server = grpc.aio.server(options=_options(self._settings))
        method = cast("Any", grpc.stream_stream_rpc_method_handler)(
            self._serve, request_deserializer=pb.Batch.FromString
        )
        service, _, name = METHOD.removeprefix("/").partition("/")
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {name: method}),)
        )
        if also is not None:
            also(server)
        try:
            if self._tls:
                port = server.add_secure_port(address, self._tls.server())
            else:
                port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise ComponentFailed(f"can't listen on {address}: {error}") from error
        await server.start()
        self._server = server
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    async def _serve(self, batches: AsyncIterator[pb.Batch], context: Any) -> None:
        link = Link(
            node=self._node,
            handler=self._handler,
            store=self._store,
            settings=self._settings,
            on_drain=self._on_drain,
            incarnation=self.incarnation,
        )
        self.links.add(link)
        link.report(self.status)
        write = cast("Callable[[bytes], Awaitable[None]]", context.write)
        try:
            await link.run(write, batches)
        except MotetError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, error.message)
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
        if self._server is not None:
            await self._server.stop(grace_s)
            self._server = None
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
        self.address = address
        self._settings = settings or LinkSettings()
        self._tls = tls
        self._store = _store(address, shared_memory)
        self.link = Link(store=self._store, settings=self._settings, on_status=on_status)
        self._task: asyncio.Task[None] | None = None
        self._channel: grpc.aio.Channel | None = None

    async def open(self) -> pb.Hello:
        """Connect and wait for the peer's hello.

        Raises:
            ComponentFailed: nobody serves there.
            ProtocolFault: the peer speaks another version.
        """
        options = _options(self._settings)
        if self._tls is None:
            self._channel = grpc.aio.insecure_channel(self.address, options=options)
        else:
            credentials = self._tls.client()
            self._channel = grpc.aio.secure_channel(self.address, credentials, options=options)
        method = cast("Any", self._channel).stream_stream
        stream: Any = method(METHOD, response_deserializer=pb.Batch.FromString)()

        async def write(batch: bytes) -> None:
            try:
                await stream.write(batch)
            except grpc.aio.AioRpcError as error:
                raise _our_error(error) from error

        self._task = asyncio.create_task(
            self.link.run(write, _batches(stream)), name=f"hop {self.address}"
        )
        try:
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
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
        if self._store is not None:
            self._store.close()

    async def __aenter__(self) -> Hop:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def _batches(stream: Any) -> AsyncIterator[pb.Batch]:
    try:
        async for batch in stream:
            yield batch
    except grpc.aio.AioRpcError as error:
        raise _our_error(error) from error


def _our_error(error: grpc.aio.AioRpcError) -> ComponentFailed:
    return ComponentFailed(f"{error.code().name.lower()}: {error.details()}")
