"""Runs the application under uvicorn: starts, serves, and ends within the grace."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..components.errors import Flaw, SpecError
from ..pipelines.graph import Graph
from .access.auth import unasked
from .app import create_app
from .connection import BoundedHttp
from .operate.garbage import Settling, settle_garbage
from .operate.hup import Hangup
from .operate.logs import write_logs
from .operate.rollout import reload_all
from .server import Server
from .settings import Settings

logger = logging.getLogger("motet")
DRAIN_POLL_S = 0.1
LAST_WORDS_S = 5


def serve(graphs: Sequence[Graph], settings: Settings) -> int:
    """Serve these pipelines until SIGINT or SIGTERM; the exit status.

    Raises:
        SpecError: the settings don't allow it, or a port can't be had.
        MotetError: a pipeline can't be loaded.
    """
    write_logs()
    for flag, port in (("--port", settings.port), ("--grpc-port", settings.grpc_port)):
        check_free(settings.host, port or 0, flag)
    check_files(settings)
    server = Server.make(graphs, settings)
    logger.info("loading %s", ", ".join(server.pipelines))
    if settings.allow_loopback_urls:
        logger.warning("URLs of inputs and webhooks may point at this machine: development only")
    if (file := unasked(settings)) is not None:
        logger.warning(
            "no key is asked for on this machine; --keys-file %s asks for its keys", file
        )
    config = uvicorn.Config(
        Starting(create_app(server), server),
        host=settings.host,
        port=settings.port,
        http=BoundedHttp,
        ws="websockets-sansio",
        ws_max_size=settings.max_message_bytes,
        # Base64 of audio hardly shrinks; two zlib windows would cost each session 0.3 MB and CPU.
        ws_per_message_deflate=False,
        log_level="warning",
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=LAST_WORDS_S,
    )
    listener = Listener(config, server)
    try:
        listener.run()
    except SystemExit:  # uvicorn's way to say that the start failed
        if server.failure is None:
            raise
    if server.failure is not None:
        raise server.failure
    return 0 if listener.started else 1


def check_free(host: str, port: int, flag: str) -> None:
    """Tell before minutes of loading that a port can't be listened at; 0 is any that is free.

    Raises:
        SpecError: it is taken, not allowed, or the host isn't one of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        message = f"can't listen at port {port} of {host!r}: {why}"
        raise SpecError([Flaw(flag, message)]) from error


def check_files(settings: Settings) -> None:
    """Tell of every file for TLS that isn't there.

    Raises:
        SpecError: one isn't.
    """
    flaws = [
        Flaw(flag, f"{str(path)!r} is no file")
        for flag, path in (("--tls-cert", settings.tls_cert), ("--tls-key", settings.tls_key))
        if path is not None and not path.is_file()
    ]
    if flaws:
        raise SpecError(flaws)


class Starting:
    """The application without the traceback of a start that failed; `serve` raises what it was."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def shortened(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed" and self._server.failure is not None:
                message = {"type": message["type"], "message": ""}
            await send(message)

        await self._app(scope, receive, shortened)


class Listener(uvicorn.Server):
    """uvicorn's server, which says where it listens once it does, and drains when told to stop.

    At the first signal new sessions are refused (1013, 503, UNAVAILABLE) and readiness fails,
    while what runs goes on, at most for the grace; a second signal ends it at once.
    """

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._hangup = Hangup(lambda: reload_all(server), self._leave)
        self._settling = Settling(lambda: server.open_sessions)
        if server.settings.runtime == "local":
            for pipeline in server.pipelines.values():
                pipeline.versions.on_ended = self._settling.ask

    def _leave(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Listen, then say so."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            self._hangup.watch()
            self._settling.start()
            settle_garbage()
            scheme = "https" if self.config.is_ssl else "http"
            host = self._server.settings.url_host
            logger.info("listening at %s://%s:%d", scheme, host, self._port())

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Drain, then close what is left."""
        await self._hangup.close()
        await self._settling.close()
        self._server.drain()
        grace_s = self._server.settings.shutdown_grace_s
        open_sessions = self._server.open_sessions
        if open_sessions:
            logger.info("draining %d sessions, for %g s at most", open_sessions, grace_s)
        deadline_s = time.monotonic() + grace_s
        while self._server.open_sessions and not self.force_exit:
            if time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(DRAIN_POLL_S)
        self._server.stopping.set()
        await super().shutdown(sockets)  # type: ignore[arg-type]

    def _port(self) -> int:
        for server in self.servers:
            for listening in server.sockets:
                return int(listening.getsockname()[1])
        return self.config.port
