"""What the routes of jobs and webhooks depend on: who asks, and the jobs of this server."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from ..access.auth import Principal
from ..server import principal_of
from .service import Jobs

Asker = Annotated[Principal, Depends(principal_of)]


async def jobs_of(request: Request, asker: Asker) -> Jobs:
    """FastAPI dependency: the jobs of this server, their engine running. `asker` comes first, so
    that nobody without a key starts it.

    Raises:
        NoJobs: nothing that is served here needs any (404).
    """
    return await request.app.state.jobs.jobs()


Ours = Annotated[Jobs, Depends(jobs_of)]
