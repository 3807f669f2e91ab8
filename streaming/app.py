"""The HTTP and WebSocket application: every door's routes around one `Server`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from . import operate, problems
from .server import Server

PAGE = Path(__file__).parent / "page"
POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:;"
    " media-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def create_app(server: Server) -> FastAPI:
    """The application; entering its lifespan loads the pipelines, leaving it frees them."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for pipeline in server.pipelines.values():
                await stack.enter_async_context(pipeline)
            yield
            server.stopping.set()

    app = FastAPI(title="Motet", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    app.state.server = server
    problems.install(app)
    app.middleware("http")(measured(server))
    app.include_router(operate.router)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:  # pyright: ignore[reportUnusedFunction]
        return FileResponse(PAGE / "index.html", headers={"Content-Security-Policy": POLICY})

    return app


def measured(
    server: Server,
) -> Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]:
    """Middleware that counts requests by their route's pattern, never by the path asked for."""

    async def count(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        started = time.monotonic()
        response = await call(request)
        route = getattr(request.scope.get("route"), "path", "unknown")
        took = time.monotonic() - started
        server.metrics.requests.labels(route, str(response.status_code)).observe(took)
        return response

    return count
