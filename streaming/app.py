"""The HTTP and WebSocket application: every door's routes around one `Server`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..components.errors import MotetError
from . import described, embeddings, problems, websocket
from .access.admission import Admission
from .audio import routes as audio
from .audio import speech, voices
from .bodies import Bounded
from .chat import routes as chat
from .images import routes as images
from .jobs import door as jobs
from .operate import admin
from .operate import routes as operate
from .server import Server
from .telephony import routes as telephony
from .videos import routes as videos
from .webrtc import routes as webrtc
from .webrtc.calls import Calls

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
        await stack.enter_async_context(calls)
        door = await stack.enter_async_context(jobs.opened(app, server))
        await stack.enter_async_context(videos.opened(app, door))
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

    app = FastAPI(
        title="Motet",
        lifespan=lifespan,
        docs_url=None,  # Swagger UI would come from a CDN; /openapi.json is there
        redoc_url=None,
        responses=problems.ANY,
    )
    app.state.server = server
    problems.install(app)
    described.install(app)
    settings = server.settings
    app.add_middleware(Bounded, limit_bytes=settings.max_body_bytes)
    if settings.allow_origins:
        # Pages of other origins may also read what they get: their browsers ask for it.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allow_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["Location"],
        )
    app.add_middleware(Measured, server=server)
    admission = Admission(settings.max_sessions, settings.max_sessions_per_key)
    for door in (operate, admin, chat, embeddings, audio, speech, voices, images, videos):
        app.include_router(door.router)
    jobs.install(app)
    calls = Calls()
    app.include_router(websocket.router(server, admission, calls))
    app.include_router(telephony.router(server, admission))
    app.include_router(webrtc.router(server, admission, calls))
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
