"""A clip that was asked for, and what the routes need of whoever makes and keeps clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ...components.errors import MotetError
from ...pipelines.pipeline import Pipeline
from ..access.auth import Principal
from .request import VideoRequest

Status = Literal["queued", "in_progress", "completed", "failed"]
Variant = Literal["video", "thumbnail", "spritesheet"]
RETENTION_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Video:
    """A clip that was asked for. `progress` in 0..100; times are of the wall clock.

    `meta` is what the component told of the finished clip; `previews` counts pictures of one that
    is being made.
    """

    id: str
    model: str
    wish: VideoRequest
    created_at: float
    status: Status = "queued"
    progress: float = 0.0
    completed_at: float | None = None
    expires_at: float | None = None
    size: str = ""
    seconds: float | None = None
    error: tuple[str, str] | None = None
    remixed_from: str | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    previews: int = 0


class VideoStore(Protocol):
    """Makes clips in the background and keeps them for their owners."""

    async def create(
        self,
        pipeline: Pipeline,
        asker: Principal,
        wish: VideoRequest,
        image: bytes | None,
        *,
        remixed_from: str | None = None,
    ) -> Video:
        """Take a clip in; `image` is the picture to start from, if it came as a file.

        Raises:
            BadInput: the picture came twice, or is none.
            Overloaded: too many wait already.
        """
        ...

    async def get(self, video_id: str, owner: str) -> Video:
        """A clip of that owner. Raises `NotFound`."""
        ...

    async def many(
        self, owner: str, *, after: str | None, limit: int, oldest_first: bool
    ) -> Sequence[Video]:
        """Clips of an owner in order, those behind the clip `after` if it is given."""
        ...

    async def picture(self, video: Video) -> bytes | None:
        """The picture that came as a file to start from."""
        ...

    async def content(self, video: Video, variant: Variant) -> Path:
        """The file of a completed clip; the thumbnail of one with previews is the newest of them.

        Raises:
            NotFound: it is gone.
        """
        ...

    async def delete(self, video_id: str, owner: str) -> None:
        """Remove it, stopping its work. Raises `NotFound`."""
        ...


class NotFound(MotetError):
    """There is no such clip, or it is another key's."""

    code = "not_found"


class NotReady(MotetError):
    """The clip isn't made yet, or failed."""

    code = "conflict"
