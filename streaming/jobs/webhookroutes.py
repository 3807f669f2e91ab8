"""`/v1/webhooks`: endpoints, secrets, the log of deliveries, and sending them again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ..auth import Principal
from ..fetch import check_url
from ..server import Server, principal_of, server_of
from .deliveries import State
from .requests import EndpointRequest, ReplayRequest, RotateRequest
from .routes import jobs_of
from .service import Jobs
from .store import NotFound

router = APIRouter()

Ours = Annotated[Jobs, Depends(jobs_of)]
Asker = Annotated[Principal, Depends(principal_of)]
Json = dict[str, Any]


@router.post("/v1/webhooks", status_code=201)
async def add(
    body: EndpointRequest,
    jobs: Ours,
    asker: Asker,
    server: Annotated[Server, Depends(server_of)],
) -> Json:
    """A new endpoint. The answer holds its secret, this once."""
    check_url(body.url, allow_loopback=server.settings.allow_loopback_urls)
    made = await jobs.endpoints.add(asker.name, body.url, body.events, body.secret)
    return {"object": "webhook_endpoint", **made}


@router.get("/v1/webhooks")
async def listed(jobs: Ours, asker: Asker) -> Json:
    """The key's endpoints; `disabled` says why one is off."""
    return {"object": "list", "data": await jobs.endpoints.many(asker.name)}


@router.delete("/v1/webhooks/{endpoint}")
async def removed(jobs: Ours, asker: Asker, endpoint: str) -> Json:
    """Take an endpoint away, with its deliveries."""
    if not await jobs.endpoints.remove(asker.name, endpoint):
        raise NotFound(f"no endpoint {endpoint!r}", where="webhooks")
    return {"id": endpoint, "object": "webhook_endpoint.deleted", "deleted": True}


@router.post("/v1/webhooks/{endpoint}/enable")
async def enabled(jobs: Ours, asker: Asker, endpoint: str) -> Json:
    """Use an endpoint again that was disabled."""
    if not await jobs.endpoints.enable(asker.name, endpoint):
        raise NotFound(f"no endpoint {endpoint!r}", where="webhooks")
    return {"id": endpoint, "object": "webhook_endpoint", "disabled": None}


@router.post("/v1/webhooks/{endpoint}/rotate")
async def rotated(jobs: Ours, asker: Asker, endpoint: str, body: RotateRequest) -> Json:
    """A new secret; the old one signs along for a while, so that receivers can change over."""
    secret = await jobs.endpoints.rotate(asker.name, endpoint, body.overlap_s)
    if secret is None:
        raise NotFound(f"no endpoint {endpoint!r}", where="webhooks")
    return {"id": endpoint, "object": "webhook_endpoint", "secret": secret}


@router.get("/v1/webhooks/deliveries")
async def deliveries(
    jobs: Ours,
    asker: Asker,
    state: State | None = None,
    endpoint: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> Json:
    """Deliveries, the newest first; `state=failed` lists those given up."""
    limit = min(max(limit, 1), 200)
    found = await jobs.deliveries.many(
        asker.name, state=state, endpoint=endpoint, after=after, limit=limit + 1
    )
    return {"object": "list", "data": found[:limit], "has_more": len(found) > limit}


@router.get("/v1/webhooks/deliveries/{delivery}")
async def log(jobs: Ours, asker: Asker, delivery: str) -> Json:
    """Every attempt of a delivery: request, answer, latency."""
    attempts = await jobs.deliveries.log_of(delivery, asker.name)
    if attempts is None:
        raise NotFound(f"no delivery {delivery!r}", where="webhooks")
    return {"id": delivery, "object": "webhook_delivery", "attempts": attempts}


@router.post("/v1/webhooks/deliveries/replay")
async def replayed(body: ReplayRequest, jobs: Ours, asker: Asker) -> Json:
    """Send deliveries again, each under the id it had."""
    count = await jobs.deliveries.replay(asker.name, **body.model_dump())
    jobs.outbox.wake()
    return {"object": "webhook_replay", "count": count}
