"""`/v1/admin`: reloads and canaries, for keys that may change what is served."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from ...pipelines.canary import CanarySpec, Share
from ..access.auth import Principal
from ..server import Server, admin_of, server_of
from .rollout import begin_canary, named, reload
from .routes import pipeline_status

router = APIRouter(prefix="/v1/admin", tags=["admin"])
Ours = Annotated[Server, Depends(server_of)]
Admin = Annotated[Principal, Depends(admin_of)]
Json = dict[str, Any]


class Draining(BaseModel):
    """How long sessions of the version that goes may last (None: as long as any session)."""

    model_config = ConfigDict(extra="forbid")

    drain_s: float | None = Field(default=None, ge=0)


class ReloadRequest(Draining):
    """Which pipelines to reload (none: all); `fresh` loads also what hasn't changed."""

    pipelines: list[str] = Field(default_factory=list[str])
    fresh: bool = False


class CanaryRequest(CanarySpec):
    """A canary of the pipeline's own file, or of `file` in the same folder. `targets` say where
    changed components are that others start, by node: "HOST:PORT", or an application of Ray's.
    """

    file: str | None = None
    targets: dict[str, str] = Field(default_factory=dict[str, str])
    fresh: bool = False


class ShareRequest(BaseModel):
    """The canary's new share of new sessions."""

    model_config = ConfigDict(extra="forbid")

    share: Share


@router.post("/reload")
async def reloaded(body: ReloadRequest, server: Ours, asker: Admin) -> Json:
    """Serve what the pipeline files hold now; sessions that run stay on the old version."""
    told = await reload(server, body.pipelines, fresh=body.fresh, drain_s=body.drain_s)
    return {"object": "reload", "pipelines": told}


@router.post("/pipelines/{name}/canary")
async def begun(name: str, body: CanaryRequest, server: Ours, asker: Admin) -> Json:
    """Give a share of new sessions to a new version."""
    pipeline = named(server, name)
    spec = CanarySpec.model_validate(body.model_dump(include=set(CanarySpec.model_fields)))
    await begin_canary(pipeline, body.file, spec, fresh=body.fresh, targets=body.targets)
    return pipeline_status(pipeline)


@router.patch("/pipelines/{name}/canary")
async def moved(name: str, body: ShareRequest, server: Ours, asker: Admin) -> Json:
    """Give the canary another share."""
    pipeline = named(server, name)
    pipeline.versions.move(body.share)
    return pipeline_status(pipeline)


@router.post("/pipelines/{name}/canary/promote")
async def promoted(name: str, body: Draining, server: Ours, asker: Admin) -> Json:
    """Give all new sessions to the canary."""
    pipeline = named(server, name)
    pipeline.versions.promote(drain_s=body.drain_s)
    server.changed()
    return pipeline_status(pipeline)


@router.post("/pipelines/{name}/canary/abort")
async def aborted(name: str, body: Draining, server: Ours, asker: Admin) -> Json:
    """Give the canary no more sessions."""
    pipeline = named(server, name)
    pipeline.versions.abort(drain_s=body.drain_s)
    return pipeline_status(pipeline)
