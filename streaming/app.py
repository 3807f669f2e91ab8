"""The HTTP and WebSocket application: every door's routes around one `Server`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..components.errors import MotetError
from . import (
    admin,
    audio,
    chat,
    embeddings,
    images,
    operate,
    problems,
    speech,
    videos,
    voices,
    websocket,
)
from .admission import Admission
from .jobs import door as jobs
from .server import Server
from .telephony import routes as telephony

PAGE = Path(__file__).parent / "page"
POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:;"
    " media-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def create_app(server: Server) -> FastAPI:
    """The application; entering its lifespan loads the pipelines, leaving it frees them."""

    async def start(app: FastAPI, stack: AsyncExitStack) -> None:
        for pipeline in server.pipelines.values():
            await stack.enter_async_context(pipeline)
        await stack.enter_async_context(jobs.opened(app, server))
        await stack.enter_async_context(videos.opened(app, server))
        if settings.grpc_port is not None:
            from .rpc.server import serving

            port = settings.grpc_port
            await stack.enter_async_context(serving(server, port=port, admission=admission))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            try:
                await start(app, stack)
            except MotetError as error:
                server.failure = error
                raise
            yield
            server.stopping.set()

    app = FastAPI(title="Motet", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    app.state.server = server
    problems.install(app)
    app.add_middleware(Measured, server=server)
    settings = server.settings
    admission = Admission(settings.max_sessions, settings.max_sessions_per_key)
    for door in (operate, admin, chat, embeddings, audio, speech, voices, images, videos):
        app.include_router(door.router)
    jobs.install(app, server)
    for made in (websocket.router, telephony.router):
        app.include_router(made(server, admission))
    app.mount("/page", StaticFiles(directory=PAGE), name="page")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:  # pyright: ignore[reportUnusedFunction]
        return FileResponse(PAGE / "index.html", headers={"Content-Security-Policy": POLICY})

    return app


class Measured:
    """ASGI middleware that times HTTP requests by their route's pattern, never by their path.

    Plain ASGI, so that a client's disconnect reaches the handler of a streamed answer at once.
    """

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything through, remembering the status."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 500

        async def remember(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, remember)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            took = time.monotonic() - started
            self._server.metrics.requests.labels(route, str(status)).observe(took)
