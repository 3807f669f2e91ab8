"""What clients ask of `/v1/jobs` and `/v1/webhooks`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..access.auth import MOST_PRIORITY
from .store import Json

DAY_S = 86_400.0
MOST_METADATA = 8192


class JobInput(BaseModel):
    """One input: a URL, a path under the server's input folder, a text, JSON data, or a prompt
    for pictures or a clip.

    Files that are uploaded come as parts of a form instead. `name` is for people.
    """

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(default=None, max_length=4096)
    path: str | None = Field(default=None, max_length=4096)
    text: str | None = Field(default=None, max_length=200_000)
    data: Any = None
    prompt: str | None = Field(default=None, min_length=1, max_length=32_000)
    name: str | None = Field(default=None, max_length=255)

    @model_validator(mode="after")
    def _one(self) -> JobInput:
        given = self.model_fields_set & {"url", "path", "text", "data", "prompt"}
        if len(given) != 1:
            raise ValueError(
                f"exactly one of url, path, text, data and prompt is needed, got {sorted(given)}"
            )
        return self

    def source(self) -> Json:
        """The input as it is kept."""
        kept = {name: getattr(self, name) for name in self.model_fields_set - {"name"}}
        default = (self.url or self.path or "").rsplit("/", 1)[-1].split("?")[0]
        return {**kept, "name": self.name or default}


class Notify(BaseModel):
    """Who hears of the end: all endpoints, one by its id, a URL of these jobs alone, or nobody.

    What goes to `url` is signed with `secret`, or with a new one, which the answer holds.
    """

    model_config = ConfigDict(extra="forbid")

    endpoint: str | None = None
    url: str | None = Field(default=None, max_length=2048)
    secret: str | None = None
    off: bool = False

    @model_validator(mode="after")
    def _one(self) -> Notify:
        if (self.endpoint is not None) + (self.url is not None) + self.off > 1:
            raise ValueError("endpoint, url and off exclude each other")
        if self.secret is not None and self.url is None:
            raise ValueError("secret goes with url")
        return self


_EXAMPLES: list[Any] = [
    {
        "pipeline": "transcribe",
        "input": {"url": "https://example.org/talk.mp3"},
        "options": {"language": "en", "speakers": True},
        "metadata": {"episode": "12"},
        "webhook": {"url": "https://example.org/hook"},
    },
    {
        "pipeline": "transcribe",
        "inputs": [{"url": "https://example.org/1.mp3"}, {"url": "https://example.org/2.mp3"}],
        "priority": -10,
        "retention_s": 86400,
    },
]


class JobRequest(BaseModel):
    """The body of `POST /v1/jobs`, or its `request` field where files come along.

    `options` are those of the pipeline's files (language, speakers …), or of its prompts (those of
    `/v1/images/generations` and `/v1/videos`). `priority` is higher for what goes first, as far as
    the key allows (None: that of the key). Results are kept for `retention_s` after the end.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _EXAMPLES})

    pipeline: str = "transcribe"
    input: JobInput | None = None
    inputs: list[JobInput] = Field(default_factory=list[JobInput], max_length=10_000)
    options: Json = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict, max_length=50)
    priority: int | None = Field(default=None, ge=-MOST_PRIORITY, le=MOST_PRIORITY)
    webhook: Notify | None = None
    retention_s: float = Field(default=7 * DAY_S, gt=0, le=365 * DAY_S)

    @field_validator("metadata")
    @classmethod
    def _thin(cls, metadata: dict[str, str]) -> dict[str, str]:
        size = sum(len(name) + len(value) for name, value in metadata.items())
        if size > MOST_METADATA:
            raise ValueError(
                f"it goes along in every event: at most {MOST_METADATA} characters, got {size}"
            )
        return metadata


class CancelRequest(BaseModel):
    """The body of `POST /v1/jobs/cancel`: these jobs, or all that fit what is given, as far as they
    aren't over. A job fits `metadata` if it has all of it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"ids": ["job_2a"]}, {"pipeline": "transcribe", "state": "queued"}]
        },
    )

    ids: list[str] | None = Field(default=None, min_length=1, max_length=10_000)
    state: Literal["queued", "running"] | None = None
    pipeline: str | None = None
    metadata: dict[str, str] | None = Field(default=None, min_length=1, max_length=50)
    all: bool = False

    @model_validator(mode="after")
    def _some(self) -> CancelRequest:
        given = self.ids or self.state or self.pipeline or self.metadata
        if bool(given) == self.all:
            raise ValueError("ids, state, pipeline or metadata are needed, or else all: true")
        return self


class EndpointRequest(BaseModel):
    """The body of `POST /v1/webhooks`. No `events` means all of them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"url": "https://example.org/hook", "events": ["job.completed"]}]
        },
    )

    url: str = Field(max_length=2048)
    events: list[Literal["job.completed", "job.failed", "job.cancelled"]] = Field(
        default_factory=list
    )
    secret: str | None = None


class ReplayRequest(BaseModel):
    """Deliveries to send again: by id, or all of a range of time, of one endpoint or all."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"since": "2026-01-31T12:00:00Z"}]}
    )

    ids: list[str] | None = Field(default=None, min_length=1, max_length=1000)
    since: datetime | None = None
    until: datetime | None = None
    endpoint: str | None = None

    @model_validator(mode="after")
    def _some(self) -> ReplayRequest:
        if self.ids is None and self.since is None:
            raise ValueError("ids or since is needed")
        for moment in (self.since, self.until):
            if moment is not None and moment.tzinfo is None:
                raise ValueError("times need a zone, as in 2026-01-31T12:00:00Z")
        return self


class RotateRequest(BaseModel):
    """How long the old secret signs along with the new one."""

    model_config = ConfigDict(extra="forbid")

    overlap_s: float = Field(default=DAY_S, ge=0, le=30 * DAY_S)
