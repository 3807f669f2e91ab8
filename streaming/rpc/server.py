"""The gRPC server: all services on one port, with health, reflection, TLS and limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ...components.errors import Flaw, SpecError
from ...components.wire import (
    motet_pb2,
    motet_pb2_grpc,
    riva_asr_pb2,
    riva_asr_pb2_grpc,
    riva_tts_pb2,
    riva_tts_pb2_grpc,
)
from ...components.wire.codec import Codec
from ..access.admission import Admission
from ..server import Server
from ..settings import Settings
from .door import Door
from .keysfirst import KeysFirst
from .riva_asr import RivaRecognition
from .riva_tts import RivaSynthesis
from .typed import MotetService

logger = logging.getLogger("motet")
Health = health_pb2.HealthCheckResponse
HEALTH_S = 0.5
SPARE_STREAMS = 256
SERVICES = tuple(
    service.full_name
    for module in (motet_pb2, riva_asr_pb2, riva_tts_pb2)
    for service in cast("Any", module).DESCRIPTOR.services_by_name.values()
    if service.full_name != "motet.v1.Hop"
)


@asynccontextmanager
async def serving(
    server: Server, *, port: int, admission: Admission | None = None
) -> AsyncGenerator[int]:
    """Serve gRPC while inside; yields the port bound. Leaving waits for running calls, within the
    shutdown grace.

    `admission` is what the other doors count their sessions with; None counts these alone.

    Raises:
        SpecError: the port can't be bound.
    """
    settings = server.settings
    door = Door(
        server, admission or Admission(settings.max_sessions, settings.max_sessions_per_key)
    )
    made = grpc.aio.server(options=_options(settings), interceptors=[KeysFirst(door, SERVICES)])
    checks = _add_services(made, door, Codec(max_bytes=settings.max_message_bytes))
    bound = _bind(made, server, port)
    async with AsyncExitStack() as ends:
        # First, so that a start that is cancelled leaves nothing either.
        ends.push_async_callback(made.stop, settings.shutdown_grace_s)
        await made.start()
        ends.push_async_callback(checks.enter_graceful_shutdown)
        logger.info("gRPC at %s:%d", settings.url_host, bound)
        watching = asyncio.create_task(_watch(server, checks), name="gRPC health")
        ends.push_async_callback(_end, watching)
        yield bound


async def _end(watching: asyncio.Task[None]) -> None:
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def _add_services(made: grpc.aio.Server, door: Door, codec: Codec) -> Any:
    """Everything on the port; returns the health service."""
    motet, asr, tts = map(_untyped, (motet_pb2_grpc, riva_asr_pb2_grpc, riva_tts_pb2_grpc))
    motet.add_MotetServicer_to_server(MotetService(door, codec), made)
    asr.add_RivaSpeechRecognitionServicer_to_server(RivaRecognition(door), made)
    tts.add_RivaSpeechSynthesisServicer_to_server(RivaSynthesis(door), made)
    checks = _untyped(health).aio.HealthServicer()
    _untyped(health_pb2_grpc).add_HealthServicer_to_server(checks, made)
    reflection.enable_server_reflection((*SERVICES, reflection.SERVICE_NAME), made)
    return checks


def _untyped(module: Any) -> Any:
    """A module that gRPC's generator wrote: without types."""
    return module


def _options(settings: Settings) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # Of one connection: more than there are places, so that who finds none is told so.
        ("grpc.max_concurrent_streams", settings.max_sessions + SPARE_STREAMS),
        ("grpc.so_reuseport", 0),
        # A client that is gone without a word is noticed, and may ping to keep its connection.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        # New replicas behind a load balancer get clients only when old connections end.
        ("grpc.max_connection_age_ms", 30 * 60_000),
        ("grpc.max_connection_age_grace_ms", 60 * 60_000),
    ]


def _bind(made: grpc.aio.Server, server: Server, port: int) -> int:
    settings = server.settings
    address = f"{settings.url_host}:{port}"
    try:
        if settings.tls_cert and settings.tls_key:
            pair = (settings.tls_key.read_bytes(), settings.tls_cert.read_bytes())
            return made.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        return made.add_insecure_port(address)
    except (RuntimeError, OSError) as error:
        flaw = Flaw("grpc_port", f"can't listen on {address}: {error}")
        raise SpecError([flaw], file="settings") from error


async def _watch(server: Server, checks: Any) -> None:
    """Keep the health service's answers true: "" and each service, as the pipelines are ready."""
    last: bool | None = None
    while True:
        ready = server.ready
        if ready != last:
            status = Health.SERVING if ready else Health.NOT_SERVING
            for name in ("", *SERVICES):
                await checks.set(name, status)
            last = ready
        await asyncio.sleep(HEALTH_S)
