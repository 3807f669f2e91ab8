"""Links between hosts: one bidirectional gRPC stream each, with mutual TLS on request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc

from ...components.errors import ComponentFailed, MotetError
from ...components.wire import motet_pb2 as pb
from .carrier import Serve
from .link import BATCH_BYTES, LinkSettings

METHOD = "/motet.v1.Hop/Link"


@dataclass(frozen=True, slots=True)
class MutualTls:
    """PEM files: the authority that both sides trust, and this side's certificate and key.

    `name` is the DNS name that a server's certificate must have, None for that of its address:
    replicas are called by addresses of their own, which no certificate knows ahead.
    """

    authority: Path
    certificate: Path
    key: Path
    name: str | None = None

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


class GrpcCarrier:
    """One stream, seen from the side that opened it; see `Carrier`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        method = cast("Any", channel).stream_stream
        self._stream: Any = method(METHOD, response_deserializer=pb.Batch.FromString)()

    async def write(self, batch: bytes) -> None:
        """Send a batch; see `Carrier.write`."""
        try:
            await self._stream.write(batch)
        except grpc.aio.AioRpcError as error:
            raise _our_error(error) from error

    async def batches(self) -> AsyncIterator[pb.Batch]:
        """The peer's batches; see `Carrier.batches`."""
        try:
            async for batch in self._stream:
                yield batch
        except grpc.aio.AioRpcError as error:
            raise _our_error(error) from error

    async def close(self) -> None:
        """Cancel the stream and close its channel."""
        await self._channel.close()


class _Served:
    """One stream, seen from the side that serves it; see `Carrier`."""

    def __init__(self, batches: AsyncIterator[pb.Batch], context: Any) -> None:
        self._batches = batches
        self.write = cast("Callable[[bytes], Awaitable[None]]", context.write)

    def batches(self) -> AsyncIterator[pb.Batch]:
        return self._batches

    async def close(self) -> None:
        """gRPC closes it when its method returns."""


class GrpcListener:
    """Listens on HOST:PORT; see `Listener`."""

    def __init__(
        self, address: str, serve: Serve, settings: LinkSettings, tls: MutualTls | None
    ) -> None:
        self._address = address
        self._serve = serve
        self._settings = settings
        self._tls = tls
        self._server: grpc.aio.Server | None = None

    async def start(self, *, also: Callable[[Any], None] | None = None) -> str:
        """Listen; see `Listener.start`."""
        server = grpc.aio.server(options=_options(self._settings))
        method = cast("Any", grpc.stream_stream_rpc_method_handler)(
            self._link, request_deserializer=pb.Batch.FromString
        )
        service, _, name = METHOD.removeprefix("/").partition("/")
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {name: method}),)
        )
        if also is not None:
            also(server)
        try:
            if self._tls:
                port = server.add_secure_port(self._address, self._tls.server())
            else:
                port = server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise ComponentFailed(f"can't listen on {self._address}: {error}") from error
        self._server = server
        try:
            await server.start()
        except BaseException:
            await self.stop(0)
            raise
        return f"{self._address.rpartition(':')[0]}:{port}"

    async def _link(self, batches: AsyncIterator[pb.Batch], context: Any) -> None:
        try:
            await self._serve(_Served(batches, context))
        except MotetError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, error.message)

    async def stop(self, grace_s: float) -> None:
        """Close; see `Listener.stop`."""
        if self._server is not None:
            await self._server.stop(grace_s)
            self._server = None


def dial(address: str, settings: LinkSettings, tls: MutualTls | None) -> GrpcCarrier:
    """A stream to the listener at an address; what is wrong with it shows when it is used."""
    options = _options(settings)
    if tls is None:
        return GrpcCarrier(grpc.aio.insecure_channel(address, options=options))
    if tls.name is not None:
        options.append(("grpc.ssl_target_name_override", tls.name))
    return GrpcCarrier(grpc.aio.secure_channel(address, tls.client(), options=options))


def _our_error(error: grpc.aio.AioRpcError) -> ComponentFailed:
    return ComponentFailed(f"{error.code().name.lower()}: {error.details()}")
