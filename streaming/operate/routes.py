"""What operators ask: liveness, readiness, metrics, and the state of every node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from ...components.frames import Control
from ...pipelines.graph import FRAME_TYPES, Graph
from ...pipelines.pipeline import Pipeline
from ...pipelines.runtimes.base import NodeStatus
from ...pipelines.versions import Versions
from ..access.auth import Principal
from ..adapters import adapters_of
from ..described import answers
from ..problems import errors, problem
from ..server import Server, principal_of, server_of
from .metrics import CONTENT_TYPE, own_nodes

router = APIRouter()
Ours = Annotated[Server, Depends(server_of)]
Asker = Annotated[Principal, Depends(principal_of)]


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Whether the process answers; never waits for models."""
    return {"status": "ok"}


@router.get("/readyz", responses={200: answers("application/json")})
async def ready(server: Ours) -> JSONResponse:
    """Whether every pipeline takes work now; 503 while loading, draining or broken. `down` names
    tasks of the server that don't work; `/v1/status` says why."""
    states = {name: pipeline.ready for name, pipeline in server.pipelines.items()}
    body: dict[str, Any] = {"ready": server.ready, "pipelines": states}
    body |= {"down": server.upkeep.down} if server.upkeep.down else {}
    return JSONResponse(body, 200 if server.ready else 503)


@router.get("/metrics", response_class=Response, responses={200: answers("text/plain")})
async def metrics(server: Ours, asker: Asker) -> Response:
    """Prometheus' text format."""
    return Response(server.metrics.text(), media_type=CONTENT_TYPE)


@router.get("/v1/status")
async def status(server: Ours, asker: Asker) -> dict[str, Any]:
    """Replicas, sessions and queues of every node of every pipeline."""
    return {
        "object": "status",
        "ready": server.ready,
        "pipelines": [pipeline_status(pipeline) for pipeline in server.pipelines.values()],
        "tasks": server.upkeep.status(),
    }


def pipeline_status(pipeline: Pipeline) -> dict[str, Any]:
    """One pipeline as `motet status` and the page show it."""
    return {
        "name": pipeline.name,
        "description": pipeline.graph.spec.description,
        "ready": pipeline.ready,
        "sessions": pipeline.versions.sessions,
        "max_sessions": pipeline.graph.spec.sessions.max_sessions,
        "accepts": accepts(pipeline),
        "emits": emits(pipeline),
        "nodes": [node_status(pipeline.graph, node) for node in pipeline.runtime.status()],
        "versions": versions_status(pipeline.versions),
        "events": [asdict(event) for event in pipeline.versions.events],
        "edges": [[edge.source, edge.target] for edge in pipeline.graph.edges],
        "conversation": pipeline.graph.spec.conversation is not None,
    }


def accepts(pipeline: Pipeline) -> list[str]:
    """Names of the frames that may enter the pipeline: what its clients can send."""
    data = ((name, kind) for name, kind in FRAME_TYPES.items() if not issubclass(kind, Control))
    return [name for name, kind in data if pipeline.graph.entries(kind)]


def emits(pipeline: Pipeline) -> list[str]:
    """Names of the frames that the pipeline's components make."""
    made = {kind.__name__ for node in pipeline.graph.nodes.values() for kind in node.emits}
    return sorted(made)


def versions_status(versions: Versions) -> list[dict[str, Any]]:
    """The versions, the stable one first; `nodes` are those that no version before it has."""
    found: list[dict[str, Any]] = []
    for version, nodes in own_nodes(versions):
        policy = versions.policy if version is versions.canary else None
        found.append(
            {
                "version": version.id,
                "role": version.role,
                "share": versions.share(version),
                "ready": version.runtime.ready,
                "sessions": len(version.sessions),
                "runs": version.runs,
                "faults": version.faults,
                "file": version.graph.file,
                "canary": policy.spec.model_dump(exclude={"share"}) if policy else None,
                "nodes": [node_status(version.graph, node) for node in nodes],
            }
        )
    return found


def node_status(graph: Graph, status: NodeStatus) -> dict[str, Any]:
    """A node's load, beside what its pipeline file says of it."""
    spec = graph.nodes[status.node].spec
    return {
        **asdict(status),
        "model": spec.model,
        "min_replicas": spec.scale.min_replicas,
        "max_replicas": spec.scale.max_replicas,
        "queue_bound": spec.queue.bound,
    }


@router.get("/v1/models")
async def models(server: Ours, asker: Asker) -> dict[str, Any]:
    """The pipelines as OpenAI lists models, each followed by itself with its adapters."""
    return {"object": "list", "data": [as_model(name) for name in names(server)]}


def names(server: Server) -> list[str]:
    """What a client may name as its model."""
    return [
        name
        for pipeline in server.pipelines.values()
        for name in (pipeline.name, *(f"{pipeline.name}:{one}" for one in adapters_of(pipeline)))
    ]


@router.get("/v1/models/{name}", responses={200: answers("application/json"), **errors(404)})
async def model(name: str, server: Ours, asker: Asker) -> JSONResponse:
    """One pipeline as OpenAI describes a model."""
    if name not in names(server):
        known = ", ".join(server.pipelines)
        return problem(404, f"model {name!r} is unknown; known: {known}", "model_not_found")
    return JSONResponse(as_model(name))


def as_model(name: str) -> dict[str, Any]:
    """OpenAI's model object; the date is that of the pipeline format."""
    return {"id": name, "object": "model", "created": 1764374400, "owned_by": "motet"}
