"""Clips that this process makes and keeps, where there are no jobs: a bounded store, one clip at a
time per pipeline.

Files lie in the data folder; what is known of them lives with the process, so a restart forgets
clips, and removes their files.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...components.errors import BadInput, ComponentFailed, MotetError, Overloaded
from ...components.frames import Image, Progress, VideoClip
from ...pipelines.pipeline import Pipeline
from ..access.auth import Principal
from .coding import spritesheet, still, thumbnail, write_mp4
from .request import VideoRequest
from .store import RETENTION_S, NotFound, Variant, Video

log = logging.getLogger("motet.videos")

SUFFIXES: dict[Variant, str] = {"video": ".mp4", "thumbnail": ".webp", "spritesheet": ".jpg"}
MOST_KEPT = 500
MOST_WAITING = 32


@dataclass(slots=True)
class _Kept:
    """A clip with what only this store needs of it."""

    video: Video
    owner: str
    image: bytes | None


class VideoTasks:
    """A `VideoStore` of this process. Use it as a context: leaving it cancels what is at work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, _Kept] = {}
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
        self,
        pipeline: Pipeline,
        asker: Principal,
        wish: VideoRequest,
        image: bytes | None,
        *,
        remixed_from: str | None = None,
    ) -> Video:
        """Take a clip in; it is made in the background, after those before it.

        Raises:
            BadInput: the picture came twice.
            Overloaded: `MOST_WAITING` clips wait, or `MOST_KEPT` are kept.
        """
        await self._expire()
        if image is not None and wish.input_reference is not None:
            raise BadInput("a picture came twice", param="input_reference")
        if len(self._tasks) >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} clips wait already", where="videos", retry_after_s=30)
        if len(self._kept) >= MOST_KEPT:
            raise Overloaded(f"{MOST_KEPT} clips are kept; delete some", where="videos")
        video_id = f"video_{secrets.token_hex(12)}"
        video = Video(video_id, pipeline.name, wish, time.time(), remixed_from=remixed_from)
        self._kept[video_id] = _Kept(video, asker.name, image)
        task = asyncio.create_task(self._make(video_id, pipeline, asker.priority), name=video_id)
        self._tasks[video_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(video_id, None))
        return video

    async def get(self, video_id: str, owner: str) -> Video:
        """A clip of that owner. Raises `NotFound`."""
        await self._expire()
        found = self._kept.get(video_id)
        if found is None or found.owner != owner:
            raise NotFound(f"no video {video_id!r:.60}", where="videos")
        return found.video

    async def many(
        self, owner: str, *, after: str | None, limit: int, oldest_first: bool
    ) -> list[Video]:
        """Clips of an owner in order, those behind `after`."""
        await self._expire()
        videos = [kept.video for kept in self._kept.values() if kept.owner == owner]
        if not oldest_first:
            videos.reverse()
        places = [place for place, video in enumerate(videos) if video.id == after]
        first = places[0] + 1 if places else 0
        return videos[first : first + limit]

    async def picture(self, video: Video) -> bytes | None:
        """The picture that it started from, if it came as a file."""
        kept = self._kept.get(video.id)
        return None if kept is None else kept.image

    async def content(self, video: Video, variant: Variant) -> Path:
        """A file of a completed clip, or the newest preview."""
        return self._path(video.id, variant)

    async def delete(self, video_id: str, owner: str) -> None:
        """Remove a clip and its files, stopping its work. Raises `NotFound`."""
        await self.get(video_id, owner)
        task = self._tasks.get(video_id)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._forget(video_id)

    async def _make(self, video_id: str, pipeline: Pipeline, priority: int) -> None:
        turn = self._turns.setdefault(pipeline.name, asyncio.Semaphore(1))
        async with turn:
            self._change(video_id, status="in_progress")
            try:
                clip = await self._run(video_id, pipeline, priority)
                await to_its_end(self._write, video_id, clip)
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
                    previews=0,
                    size=f"{width}x{height}",
                    seconds=frames / clip.fps,
                    meta=dict(clip.meta),
                )

    async def _run(self, video_id: str, pipeline: Pipeline, priority: int) -> VideoClip:
        kept = self._kept[video_id]
        asked = kept.video.wish.frame(kept.image)
        clip: VideoClip | None = None
        run = pipeline.ask(asked, key=kept.owner, priority=priority)
        async with aclosing(run) as frames:
            async for frame in frames:
                if isinstance(frame, Progress) and frame.total:
                    self._change(video_id, progress=min(99.0, 100 * frame.done / frame.total))
                elif isinstance(frame, Image):
                    await to_its_end(self._show, video_id, frame)
                    self._change(video_id, previews=int(frame.meta.get("preview", 0)) + 1)
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

    def _show(self, video_id: str, preview: Image) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(video_id, "thumbnail")
        path.with_suffix(".new").write_bytes(still(preview.pixels))
        path.with_suffix(".new").rename(path)

    def _path(self, video_id: str, variant: Variant) -> Path:
        return self._folder / f"{video_id}{SUFFIXES[variant]}"

    def _change(self, video_id: str, **changes: Any) -> None:
        kept = self._kept[video_id]
        kept.video = replace(kept.video, **changes)

    def _end(self, video_id: str, **changes: Any) -> None:
        now = time.time()
        self._change(video_id, completed_at=now, expires_at=now + RETENTION_S, **changes)

    async def _expire(self) -> None:
        now = time.time()
        for kept in list(self._kept.values()):
            if kept.video.expires_at is not None and kept.video.expires_at < now:
                await self._forget(kept.video.id)

    async def _forget(self, video_id: str) -> None:
        self._kept.pop(video_id, None)
        for variant in SUFFIXES:
            path = self._path(video_id, variant)
            await asyncio.to_thread(path.unlink, missing_ok=True)


async def to_its_end(write: Callable[..., None], *given: object) -> None:
    """Write in a thread. Who is cancelled meanwhile waits for its end, since a thread writes on:
    what is deleted then would be there again."""
    writing = asyncio.ensure_future(asyncio.to_thread(write, *given))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.gather(writing, return_exceptions=True)
        raise
