"""`/v1/webhooks`: endpoints, secrets, the log of deliveries, and sending them again."""

from __future__ import annotations

from fastapi import APIRouter

from ..problems import errors
from .asking import Asker, Ours
from .requests import EndpointRequest, ReplayRequest, RotateRequest
from .shapes import (
    Deleted,
    DeliveryList,
    DeliveryLog,
    DeliveryState,
    EndpointList,
    EndpointShape,
    Replayed,
)
from .store import NotFound

router = APIRouter(responses=errors(404))


@router.post("/v1/webhooks", status_code=201, responses=errors(409))
async def add(body: EndpointRequest, jobs: Ours, asker: Asker) -> EndpointShape:
    """A new endpoint. The answer holds its secret, this once."""
    jobs.inputs.check_url(body.url)
    return await jobs.endpoints.add(asker.name, body.url, body.events, body.secret)


@router.get("/v1/webhooks")
async def listed(jobs: Ours, asker: Asker) -> EndpointList:
    """The key's endpoints; `disabled` says why one is off."""
    return {"object": "list", "data": await jobs.endpoints.many(asker.name)}


@router.delete("/v1/webhooks/{endpoint}")
async def removed(jobs: Ours, asker: Asker, endpoint: str) -> Deleted:
    """Take an endpoint away, with its deliveries."""
    if not await jobs.endpoints.remove(asker.name, endpoint):
        raise NotFound(f"no endpoint {endpoint!r}", where="webhooks")
    return {"id": endpoint, "object": "webhook_endpoint.deleted", "deleted": True}


@router.post("/v1/webhooks/{endpoint}/enable")
async def enabled(jobs: Ours, asker: Asker, endpoint: str) -> EndpointShape:
    """Use an endpoint again that was disabled."""
    if not await jobs.endpoints.enable(asker.name, endpoint):
        raise NotFound(f"no endpoint {endpoint!r}", where="webhooks")
    return {"id": endpoint, "object": "webhook_endpoint", "disabled": None}


@router.post("/v1/webhooks/{endpoint}/rotate", responses=errors(409))
async def rotated(jobs: Ours, asker: Asker, endpoint: str, body: RotateRequest) -> EndpointShape:
    """A new secret; the old one signs along for a while, so that receivers can change over."""
    secret = await jobs.endpoints.rotate(asker.name, endpoint, body.overlap_s)
    if secret is None:
        raise NotFound(f"no endpoint {endpoint!r}", where="webhooks")
    return {"id": endpoint, "object": "webhook_endpoint", "secret": secret}


@router.get("/v1/webhooks/deliveries")
async def deliveries(
    jobs: Ours,
    asker: Asker,
    state: DeliveryState | None = None,
    endpoint: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> DeliveryList:
    """Deliveries, the newest first; `state=failed` lists those given up."""
    limit = min(max(limit, 1), 200)
    found = await jobs.deliveries.many(
        asker.name, state=state, endpoint=endpoint, after=after, limit=limit + 1
    )
    return {"object": "list", "data": found[:limit], "has_more": len(found) > limit}


@router.get("/v1/webhooks/deliveries/{delivery}")
async def log(jobs: Ours, asker: Asker, delivery: str) -> DeliveryLog:
    """Every attempt of a delivery: request, answer, latency."""
    attempts = await jobs.deliveries.log_of(delivery, asker.name)
    if attempts is None:
        raise NotFound(f"no delivery {delivery!r}", where="webhooks")
    return {"id": delivery, "object": "webhook_delivery", "attempts": attempts}


@router.post("/v1/webhooks/deliveries/replay")
async def replayed(body: ReplayRequest, jobs: Ours, asker: Asker) -> Replayed:
    """Send deliveries again, each under the id it had."""
    count = await jobs.deliveries.replay(asker.name, **body.model_dump())
    jobs.outbox.wake()
    return {"object": "webhook_replay", "count": count}
