"""The shapes in which clients get jobs, endpoints and deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, NotRequired, cast

from pydantic import WithJsonSchema
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from .store import Job, Json, State

Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


DeliveryState = Literal["pending", "delivered", "failed"]


class InputShape(TypedDict, total=False):
    """What a job was made from; an upload has only its name."""

    name: str
    url: str
    path: str
    prompt: str


class ProgressShape(TypedDict):
    """How far a job is: `done` of `total` (for recordings seconds), and their quotient."""

    done: float
    total: float
    fraction: float


class FaultShape(TypedDict):
    """Why a job failed."""

    code: str
    message: str


class PartialChunk(TypedDict):
    """A piece of a transcript that is there before the whole."""

    start: float
    text: str


class PartialShape(TypedDict):
    """The text so far, in order of time."""

    text: str
    chunks: list[PartialChunk]


class HookShape(TypedDict):
    """The webhook of these jobs alone; `secret` is shown this once."""

    endpoint: str
    secret: str


class JobShape(TypedDict):
    """A job. `result` is there once it is completed, if the job itself was asked for: a transcript,
    or what else the pipeline makes (`text`, `pages`, `data`, `embeddings`, `files`)."""

    id: str
    object: Literal["job"]
    pipeline: str
    state: State
    priority: int
    input: InputShape
    options: Json
    metadata: dict[str, str]
    progress: ProgressShape
    attempt: int
    error: FaultShape | None
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    expires_at: Moment | None
    result: NotRequired[Json | None]
    partial: NotRequired[PartialShape]
    webhook: NotRequired[HookShape]


class JobList(TypedDict):
    """Jobs; `has_more` in pages of a list."""

    object: Literal["list"]
    data: list[JobShape]
    has_more: NotRequired[bool]
    webhook: NotRequired[HookShape]


class Cancelled(TypedDict):
    """How many jobs were cancelled."""

    object: Literal["job.cancellation"]
    count: int
    ids: list[str]


class Deleted(TypedDict):
    """What is gone."""

    id: str
    object: Literal["job.deleted", "webhook_endpoint.deleted"]
    deleted: bool


class EndpointShape(TypedDict):
    """A webhook endpoint; `disabled` says why it is off. `secret` is shown when it is made."""

    object: Literal["webhook_endpoint"]
    id: str
    url: NotRequired[str]
    events: NotRequired[list[str]]
    disabled: NotRequired[str | None]
    created_at: NotRequired[datetime]
    secret: NotRequired[str]


class EndpointList(TypedDict):
    """All endpoints of a key."""

    object: Literal["list"]
    data: list[EndpointShape]


class DeliveryShape(TypedDict):
    """An event on its way to an endpoint; `event` is its `webhook-id`, the same on each attempt."""

    id: str
    event: str
    endpoint: str
    job: str
    type: str
    state: DeliveryState
    attempts: int
    next_at: datetime
    created_at: datetime


class DeliveryList(TypedDict):
    """A page of deliveries, the newest first."""

    object: Literal["list"]
    data: list[DeliveryShape]
    has_more: bool


class RequestShape(TypedDict):
    """What was sent, but for the signature."""

    url: str
    headers: dict[str, str]


class AttemptShape(TypedDict):
    """One attempt: what was sent, the beginning of the answer or why there is none."""

    attempt: int
    at: datetime
    request: RequestShape
    status: int | None
    response: str | None
    error: str | None
    latency_ms: float


class DeliveryLog(TypedDict):
    """Every attempt of a delivery."""

    id: str
    object: Literal["webhook_delivery"]
    attempts: list[AttemptShape]


class Replayed(TypedDict):
    """How many deliveries are sent again."""

    object: Literal["webhook_replay"]
    count: int


def job_json(job: Job, *, result: bool = False) -> JobShape:
    """A job as clients see it; the result only where it is asked for, since it may be large."""
    fraction = job.done / job.total if job.total else (1.0 if job.state == "completed" else 0.0)
    shape: JobShape = {
        "id": job.id,
        "object": "job",
        "pipeline": job.pipeline,
        "state": job.state,
        "priority": job.priority,
        "input": _input(job.input),
        "options": job.options,
        "metadata": job.metadata,
        "progress": {"done": job.done, "total": job.total, "fraction": round(fraction, 4)},
        "attempt": job.attempt,
        "error": cast("FaultShape | None", job.error),
        "created_at": job.created_at.isoformat(),
        "started_at": job.started_at.isoformat() if job.started_at else None,
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
        "expires_at": job.expires_at.isoformat() if job.expires_at else None,
    }
    if result:
        shape["result"] = _result(job)
    return shape


def _input(kept: Json) -> InputShape:
    shown = {key: kept[key] for key in InputShape.__annotations__ if key in kept}
    return cast("InputShape", shown)


def _result(job: Job) -> Json | None:
    """The result, its files with the path that each is fetched from."""
    if job.result is None or "files" not in job.result:
        return job.result
    files = [
        {**file, "url": f"/v1/jobs/{job.id}/result/{file['name']}"} for file in job.result["files"]
    ]
    return {**job.result, "files": files}
