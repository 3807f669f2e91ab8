"""The component protocol: `load`, `run`, `close`, and ports typed by the frames they carry."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from .errors import ComponentFailed, DeadlineExceeded
from .frames import Frame, Generate, MediaFile

Part = TypeVar("Part")


class Options(BaseModel):
    """Base of a component's options in the pipeline file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


@dataclass(frozen=True, slots=True)
class Resources:
    """What one replica may use. `cpus` sizes thread pools; `gpus` may be a fraction."""

    cpus: float = 1.0
    gpus: float = 0.0

    @property
    def threads(self) -> int:
        """Threads an engine may start: its cores to the nearest whole one, at least one."""
        return max(1, round(self.cpus))


@dataclass(frozen=True, slots=True)
class Setup:
    """What a component is built from: its node's name, model, options and resources.

    `concurrency` is how many runs the replica serves at once; an engine that batches requests
    takes it as its batch size unless its options say otherwise.
    """

    node: str
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resources: Resources = Resources()
    concurrency: int = 16


class Fellows(Protocol):
    """The other replicas of a component's node, to which a run may lend some of its work."""

    def call(self, frames: AsyncIterator[Frame]) -> AsyncIterator[Frame]:
        """Run the component on one of them, which gets no fellows of its own.

        It never waits for a place. Closing the iterator cancels the run there, and so does the end
        of the run that lends.

        Raises:
            Overloaded: none has a free place now.
            MotetError: what the component raised there, or the replica died.
        """
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a run is for. `deadline_s` is on `time.monotonic`'s clock, None without one.

    Runs of a higher `priority` wait less, where the node's queue goes by priority. `fellows` is
    None where there can be no other replica.
    """

    session_id: str = ""
    turn: int = 0
    deadline_s: float | None = None
    trace: str = ""
    key: str = ""
    priority: int = 0
    fellows: Fellows | None = field(default=None, compare=False, repr=False)

    def remaining_s(self) -> float | None:
        """Seconds until the deadline, None without one."""
        return None if self.deadline_s is None else self.deadline_s - time.monotonic()

    def check(self, needed_s: float = 0.0, *, where: str = "") -> None:
        """Refuse early work that needs `needed_s` and can't make the deadline.

        Raises:
            DeadlineExceeded: less than `needed_s` is left.
        """
        left = self.remaining_s()
        if left is not None and left <= needed_s:
            raise DeadlineExceeded(
                f"{max(left, 0):.3f} s are left, {needed_s:.3f} s are needed", where=where
            )


@asynccontextmanager
async def closing(frames: AsyncIterator[Frame]) -> AsyncGenerator[AsyncIterator[Frame]]:
    """Iterate a run inside this, so that leaving early closes it and stops its work."""
    try:
        yield frames
    finally:
        close = getattr(frames, "aclose", None)
        if close is not None:
            await close()


class Component(ABC):
    """A model or a transformation behind frames.

    One instance is one replica: it holds the weights, and every session's `run` shares them.
    What belongs to a session lives in the local variables of `run`, never on `self`.
    """

    accepts: ClassVar[tuple[type[Frame], ...]]
    emits: ClassVar[tuple[type[Frame], ...]]
    options: ClassVar[type[Options]] = Options
    concurrency: ClassVar[int] = 16
    """Runs that one replica serves at once when the pipeline file doesn't say."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        """What this machine lacks to load the component so set up, one sentence each.

        Cheap: reads no weights. `motet check` shows them; an empty list means ready.
        """
        del setup
        return []

    @classmethod
    def refuse(cls, setup: Setup, asked: MediaFile | Generate) -> None:
        """Refuse a request that the component so set up can't follow, as far as its options and
        sizes tell: for doors that queue requests. Reads no weights, but may read files.

        Raises:
            BadInput: with what is possible.
        """

    async def load(self) -> None:
        """Bring the weights into memory, off the event loop. Called once, before any `run`."""

    def loaded(self, part: Part | None) -> Part:
        """A part that `load` makes.

        Raises:
            ComponentFailed: it isn't there yet, or no more.
        """
        if part is None:
            raise ComponentFailed("it isn't loaded", where=self.setup.node)
        return part

    @abstractmethod
    def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """Answer `frames` with frames, in the shape of a gRPC bidirectional method.

        Called once per session for nodes on the standing stream, once per turn for nodes below a
        request. Returns when `frames` ends and everything is answered. Cancelling the task that
        iterates, or closing the iterator, stops the work down to the engine. A `Control` frame
        that the component doesn't know is yielded on, in order.

        Raises:
            MotetError: ends the turn with a `Fault` of the same code.
        """

    async def close(self) -> None:
        """Free what `load` took. Idempotent; no `run` is active any more."""

    def utilisation(self) -> float | None:
        """How busy the engine is, 0..1, where it can tell; a signal for scaling."""
        return None
