"""Where the app meets jobs: opened with it where a pipeline takes files or makes them."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ..server import Server, takes

PACKAGES = ("procrastinate", "psycopg", "httpx_secure")


def has_jobs(server: Server) -> bool:
    """Whether this server keeps jobs: the extra is installed, and there is something to run or a
    database was given."""
    if any(importlib.util.find_spec(name) is None for name in PACKAGES):
        return False
    given = server.settings.database_url is not None
    made = server.pipelines.values()
    return given or any(takes(pipeline, ["MediaFile", "Generate"]) for pipeline in made)


def install(app: FastAPI, server: Server) -> None:
    """Add the routes of jobs and webhooks."""
    if has_jobs(server):
        from . import routes, webhookroutes

        app.include_router(routes.router)
        app.include_router(webhookroutes.router)


@asynccontextmanager
async def opened(app: FastAPI, server: Server) -> AsyncGenerator[None]:
    """Run jobs and deliveries while the app lives; enter it once the pipelines are loaded."""
    if not has_jobs(server):
        yield
        return
    from .service import Jobs

    concurrency = server.settings.job_concurrency
    async with Jobs(server).serving(concurrency=concurrency) as jobs:
        app.state.jobs = jobs
        yield
