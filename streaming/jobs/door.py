"""Where the app meets jobs: their routes are always there, their engine starts when needed."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from ...components.errors import BadInput, MotetError, Overloaded
from ...pipelines.version import Stopping
from ..access.auth import Principal
from ..problems import of_error
from ..server import Server, principal_of, server_of, takes

if TYPE_CHECKING:
    from .service import Jobs

logger = logging.getLogger("motet")
PACKAGES = ("procrastinate", "psycopg", "httpx_secure")
AGAIN_S = 5.0


class NoJobs(MotetError):
    """This server keeps no jobs."""

    code = "not_found"


def can_run() -> bool:
    """Whether the extra is installed."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


def has_jobs(server: Server) -> bool:
    """Whether this server keeps jobs: the extra is installed, and what is served now has something
    to run, or a database was given."""
    given = server.settings.database_url is not None
    served = server.pipelines.values()
    needed = given or any(takes(pipeline, ["MediaFile", "Generate"]) for pipeline in served)
    return needed and can_run()


def none_here(server: Server) -> NoJobs:
    """Why this server keeps no jobs."""
    if not can_run():
        return NoJobs(
            f"no jobs are kept here: they need {', '.join(PACKAGES)}; pip install 'motet[batch]'",
            where="jobs",
        )
    return NoJobs(
        "no jobs are kept here: nothing here takes files or makes pictures or clips; serve"
        " `transcribe`, `images` or `videos` too",
        where="jobs",
    )


class JobsDoor:
    """The way to a server's jobs. One task owns their engine, from the first need until `close`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Jobs] | None = None

    async def jobs(self) -> Jobs:
        """The jobs, once their engine runs, which stays when what needed it is served no more.

        Raises:
            NoJobs: nothing here needs them.
            Stopping: the server is shutting down.
        MotetError: the engine can't be started; the next who asks tries again.
        """
        opened = self._opened or self._begin()
        try:
            return await asyncio.shield(opened)
        except asyncio.CancelledError:
            if not opened.cancelled():
                raise
            raise Stopping("the server is shutting down", where="jobs") from None

    def follow(self) -> None:
        """Start the engine if what is served now needs it: jobs may be waiting from before."""
        if self._opened is None and has_jobs(self._server):
            self._begin().add_done_callback(_told)

    def _begin(self) -> asyncio.Future[Jobs]:
        if self._stop.is_set() or not has_jobs(self._server):
            raise none_here(self._server)
        self._opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(self._opened), name="jobs engine")
        return self._opened

    async def _run(self, opened: asyncio.Future[Jobs]) -> None:
        from .service import Jobs

        concurrency = self._server.settings.job_concurrency
        try:
            async with Jobs(self._server).serving(concurrency=concurrency) as jobs:
                opened.set_result(jobs)
                await self._stop.wait()
        except Exception as error:
            if opened.done():
                raise
            self._opened = None
            opened.set_exception(error)
        finally:
            opened.cancel()

    async def close(self) -> None:
        """Stop the engine; jobs at work begin again elsewhere or later."""
        self._stop.set()
        if self._task is None or self._opened is None:
            return
        if not self._opened.done():
            self._task.cancel()
        (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended


def _told(opened: asyncio.Future[Jobs]) -> None:
    error = None if opened.cancelled() else opened.exception()
    if error is not None:
        logger.error("jobs can't be run: %s; the next request for one tries again", error)


def install(app: FastAPI) -> None:
    """Add the routes of jobs and webhooks, or those that say why there are none."""
    if can_run():
        from psycopg import DataError, OperationalError

        from . import making, routes, webhookroutes

        app.add_exception_handler(DataError, unkept)
        app.add_exception_handler(OperationalError, away)
        for door in (making, routes, webhookroutes):
            app.include_router(door.router)
    else:
        app.include_router(closed)


async def unkept(request: Request, error: Exception) -> JSONResponse:
    """Ids and names that PostgreSQL can't hold, as those with a zero byte, are the client's."""
    del request
    return of_error(BadInput(f"PostgreSQL can't keep it: {str(error).splitlines()[0]}"))


async def away(request: Request, error: Exception) -> JSONResponse:
    """While the database is away, whatever needs it is to be asked for again."""
    del request, error
    message = "the database of jobs can't be reached now"
    return of_error(Overloaded(message, where="jobs", retry_after_s=AGAIN_S))


closed = APIRouter(include_in_schema=False)
METHODS = ["GET", "POST", "DELETE"]


@closed.api_route("/v1/jobs", methods=METHODS)
@closed.api_route("/v1/jobs/{rest:path}", methods=METHODS)
@closed.api_route("/v1/webhooks", methods=METHODS)
@closed.api_route("/v1/webhooks/{rest:path}", methods=METHODS)
async def refused(
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> None:
    """Say what is missing."""
    raise none_here(server)


@asynccontextmanager
async def opened(app: FastAPI, server: Server) -> AsyncGenerator[JobsDoor]:
    """Run jobs and deliveries while the app lives, as far as what is served needs them; enter it
    once the pipelines are loaded."""
    door = app.state.jobs = JobsDoor(server)
    if has_jobs(server):
        await door.jobs()
    server.on_change.append(door.follow)
    try:
        yield door
    finally:
        server.on_change.remove(door.follow)
        await door.close()
