"""The clips that this process makes and keeps: a bounded store, one clip at a time per pipeline.

Files lie in the data folder; what is known of them lives with the process, so a restart forgets
clips, and removes their files.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from ..components.errors import ComponentFailed, MotetError, Overloaded
from ..components.frames import Generate, Progress, VideoClip
from ..pipelines.pipeline import Pipeline
from .auth import Principal
from .videoscoding import spritesheet, thumbnail, write_mp4

log = logging.getLogger("motet.videos")

Status = Literal["queued", "in_progress", "completed", "failed"]
Variant = Literal["video", "thumbnail", "spritesheet"]
SUFFIXES: dict[Variant, str] = {"video": ".mp4", "thumbnail": ".webp", "spritesheet": ".jpg"}
RETENTION_S = 24 * 3600.0
MOST_KEPT = 500
MOST_WAITING = 32


@dataclass(frozen=True, slots=True)
class Video:
    """A clip that was asked for. `progress` in 0..100; times are of the wall clock.

    `meta` is what the component told of the finished clip.
    """

    id: str
    owner: str
    model: str
    asked: Generate
    created_at: float
    priority: int = 0
    status: Status = "queued"
    progress: float = 0.0
    completed_at: float | None = None
    expires_at: float | None = None
    size: str = ""
    seconds: float | None = None
    error: tuple[str, str] | None = None
    remixed_from: str | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])


class VideoStore(Protocol):
    """What the routes need of whoever makes and keeps clips."""

    async def create(
        self, pipeline: Pipeline, owner: Principal, asked: Generate, *, remixed_from: str = ""
    ) -> Video:
        """Take a clip in; it is made in the background. Raises `Overloaded`."""
        ...

    async def get(self, video_id: str, owner: str) -> Video:
        """A clip of that owner. Raises `NotFound`."""
        ...

    async def many(self, owner: str) -> list[Video]:
        """All clips of an owner, the oldest first."""
        ...

    async def content(self, video_id: str, owner: str, variant: Variant) -> Path:
        """The file. Raises `NotFound`, `NotReady`."""
        ...

    async def delete(self, video_id: str, owner: str) -> Video:
        """Remove it, stopping its work. Raises `NotFound`."""
        ...


class NotFound(MotetError):
    """There is no such clip, or it is another key's."""

    code = "not_found"


class NotReady(MotetError):
    """The clip isn't made yet, or failed."""

    code = "conflict"


class VideoTasks:
    """A `VideoStore` of this process. Use it as a context: leaving it cancels what is at work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._videos: dict[str, Video] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def __aenter__(self) -> VideoTasks:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def create(
        self, pipeline: Pipeline, owner: Principal, asked: Generate, *, remixed_from: str = ""
    ) -> Video:
        """Take a clip in; it is made in the background, after those before it.

        Raises:
            Overloaded: `MOST_WAITING` clips wait, or `MOST_KEPT` are kept.
        """
        await self._expire()
        if len(self._tasks) >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} clips wait already", where="videos", retry_after_s=30)
        if len(self._videos) >= MOST_KEPT:
            raise Overloaded(f"{MOST_KEPT} clips are kept; delete some", where="videos")
        video = Video(
            f"video_{secrets.token_hex(12)}",
            owner.name,
            pipeline.name,
            asked,
            time.time(),
            priority=owner.priority,
            remixed_from=remixed_from or None,
        )
        self._videos[video.id] = video
        task = asyncio.create_task(self._make(video.id, pipeline), name=video.id)
        self._tasks[video.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(video.id, None))
        return video

    async def get(self, video_id: str, owner: str) -> Video:
        """A clip of that owner. Raises `NotFound`."""
        await self._expire()
        found = self._videos.get(video_id)
        if found is None or found.owner != owner:
            raise NotFound(f"no video {video_id!r:.60}", where="videos")
        return found

    async def many(self, owner: str) -> list[Video]:
        """All clips of an owner, the oldest first."""
        await self._expire()
        return [video for video in self._videos.values() if video.owner == owner]

    async def content(self, video_id: str, owner: str, variant: Variant) -> Path:
        """The file.

        Raises:
            NotFound: there is no such clip.
            NotReady: it isn't made yet, or failed.
        """
        video = await self.get(video_id, owner)
        if video.status != "completed":
            raise NotReady(f"the video is {video.status}", where=video_id)
        return self._path(video_id, variant)

    async def delete(self, video_id: str, owner: str) -> Video:
        """Remove a clip and its files, stopping its work."""
        video = await self.get(video_id, owner)
        task = self._tasks.get(video_id)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._forget(video_id)
        return video

    async def _make(self, video_id: str, pipeline: Pipeline) -> None:
        turn = self._turns.setdefault(pipeline.name, asyncio.Semaphore(1))
        async with turn:
            self._change(video_id, status="in_progress")
            try:
                clip = await self._run(video_id, pipeline)
                await asyncio.to_thread(self._write, video_id, clip)
            except MotetError as error:
                self._end(video_id, status="failed", error=(error.code, error.message))
            except Exception as error:
                log.exception("a clip couldn't be made", exc_info=error)
                told = ("internal_error", "an internal error; the server's log has it")
                self._end(video_id, status="failed", error=told)
            else:
                frames, height, width, _ = clip.pixels.shape
                self._end(
                    video_id,
                    status="completed",
                    progress=100.0,
                    size=f"{width}x{height}",
                    seconds=frames / clip.fps,
                    meta=dict(clip.meta),
                )

    async def _run(self, video_id: str, pipeline: Pipeline) -> VideoClip:
        video = self._videos[video_id]
        clip: VideoClip | None = None
        run = pipeline.ask(video.asked, key=video.owner, priority=video.priority)
        async with aclosing(run) as frames:
            async for frame in frames:
                if isinstance(frame, Progress) and frame.total:
                    self._change(video_id, progress=min(99.0, 100 * frame.done / frame.total))
                elif isinstance(frame, VideoClip):
                    clip = frame
        if clip is None:
            raise ComponentFailed("it made no clip of this", where=pipeline.name)
        return clip

    def _write(self, video_id: str, clip: VideoClip) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_mp4(self._path(video_id, "video"), clip.pixels, clip.fps)
        self._path(video_id, "thumbnail").write_bytes(thumbnail(clip.pixels))
        self._path(video_id, "spritesheet").write_bytes(spritesheet(clip.pixels))

    def _path(self, video_id: str, variant: Variant) -> Path:
        return self._folder / f"{video_id}{SUFFIXES[variant]}"

    def _change(self, video_id: str, **changes: Any) -> None:
        self._videos[video_id] = replace(self._videos[video_id], **changes)

    def _end(self, video_id: str, **changes: Any) -> None:
        now = time.time()
        self._change(video_id, completed_at=now, expires_at=now + RETENTION_S, **changes)

    async def _expire(self) -> None:
        now = time.time()
        for video in list(self._videos.values()):
            if video.expires_at is not None and video.expires_at < now:
                await self._forget(video.id)

    async def _forget(self, video_id: str) -> None:
        self._videos.pop(video_id, None)
        for variant in SUFFIXES:
            path = self._path(video_id, variant)
            await asyncio.to_thread(path.unlink, missing_ok=True)
