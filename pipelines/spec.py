"""The pipeline file as data: nodes, edges, scale, sessions; unknown keys are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..components.errors import Flaw

Overflow = Literal["block", "drop_oldest", "error"]
Positive = Annotated[int, Field(ge=1)]


class Spec(BaseModel):
    """Base of every part of a pipeline file."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Scale(Spec):
    """How many replicas a component has: the five settings of a traffic-based autoscaler.

    `concurrency` is how many runs (requests or streams) one replica serves at once, None for the
    component's own; load is averaged over `window_s`; replicas go after `scale_down_delay_s` of
    less load. `min_replicas` 0 scales to zero.
    """

    min_replicas: int = Field(default=1, ge=0)
    max_replicas: Positive = 1
    concurrency: int | None = Field(default=None, ge=1)
    window_s: float = Field(default=10.0, gt=0)
    scale_down_delay_s: float = Field(default=120.0, ge=0)

    @model_validator(mode="after")
    def ordered(self) -> Scale:
        """Refuse a minimum above the maximum."""
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas is {self.min_replicas}, above max_replicas {self.max_replicas}"
            )
        return self


class Queue(Spec):
    """Where runs wait for a free place: at most `bound`; beyond that the newest is refused.

    `order` "priority" serves higher `priority` first without starving the rest.
    """

    bound: int = Field(default=64, ge=0)
    order: Literal["fifo", "priority"] = "fifo"
    max_wait_s: float = Field(default=30.0, gt=0)


class ResourceSpec(Spec):
    """What one replica may use. None shares the machine's cores among the nodes that don't say."""

    cpus: float | None = Field(default=None, gt=0)
    gpus: float = Field(default=0.0, ge=0)
    memory_gb: float | None = Field(default=None, gt=0)

    @field_validator("gpus")
    @classmethod
    def whole(cls, gpus: float) -> float:
        """Refuse what no machine can hand out."""
        if gpus > 1 and gpus % 1:
            raise ValueError("several GPUs are whole ones; only a part of one can be shared")
        return gpus


class NodeSpec(Spec):
    """One component of the graph: `use` names it, `options` are the component's own.

    `preload` False loads it at its first run instead of at the start.
    """

    use: str
    model: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    scale: Scale = Scale()
    resources: ResourceSpec = ResourceSpec()
    queue: Queue = Queue()
    preload: bool = True


class EdgeSpec(Spec):
    """What an edge carries (None: all that fits), how much it holds, what a full one does.

    A node has one queue, so that the edges into it agree on its `capacity` and `overflow`. What
    drops the oldest drops no settings and no other control frames.
    """

    carries: tuple[str, ...] | None = None
    capacity: Positive = 64
    overflow: Overflow = "block"

    @property
    def queue(self) -> tuple[int, Overflow]:
        """What it says of the queue that it leads into."""
        return self.capacity, self.overflow


class ConversationSpec(Spec):
    """The hub of a voice pipeline: who the assistant is, and how much it remembers.

    `max_history_tokens` bounds what goes into a prompt; the oldest turns are left out first.
    `first_token_timeout_s` ends a turn whose model doesn't answer.
    """

    instructions: str = "You are a helpful voice assistant. Answer in one or two short sentences."
    max_history_tokens: Positive = 1024
    max_items: Positive = 512
    first_token_timeout_s: float = Field(default=10.0, gt=0)
    turn_detection: Literal["server_vad", "semantic_vad"] = "server_vad"
    silence_duration_ms: int = Field(default=500, ge=100, le=10_000)
    max_answer_tokens: Positive = 256
    temperature: float | None = Field(default=None, ge=0, le=2)
    voice: str | None = None


class SessionSpec(Spec):
    """Bounds on sessions: how many at once, how long, and how long one may be idle."""

    max_sessions: Positive = 64
    max_age_s: float = Field(default=3600.0, gt=0)
    idle_s: float = Field(default=600.0, gt=0)
    max_output_frames: Positive = 512


class PipelineSpec(Spec):
    """A whole pipeline file. An edge is "a -> b -> c", or {"a -> b": types or settings}."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")
    description: str = ""
    nodes: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")], NodeSpec]
    edges: list[str | dict[str, list[str] | EdgeSpec]]
    conversation: ConversationSpec | None = None
    sessions: SessionSpec = SessionSpec()


def flaws_of(error: ValidationError) -> list[Flaw]:
    """What pydantic found in a file of ours that has no lines to tell: where, and what was got."""
    return [
        Flaw(".".join(map(str, one["loc"])), f"{one['msg']}, got {one['input']!r:.60}")
        for one in error.errors(include_url=False)
    ]
