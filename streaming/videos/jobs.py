"""Clips as durable jobs: they outlive the server, are tried again, and webhooks hear of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...pipelines.pipeline import Pipeline
from ..access.auth import Principal
from ..jobs.generate import generate
from ..jobs.service import Jobs
from ..jobs.store import Job, Json
from .request import VideoRequest
from .store import RETENTION_S, NotFound, Status, Variant, Video

FILES: dict[Variant, str] = {
    "video": "0.mp4",
    "thumbnail": "0-thumbnail.webp",
    "spritesheet": "0-spritesheet.jpg",
}
_STATUS: dict[str, Status] = {
    "queued": "queued",
    "running": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "failed",
}


class VideoJobs:
    """A `VideoStore` on the jobs of this server; `makers` names the pipelines that make clips."""

    def __init__(self, jobs: Jobs, makers: Callable[[], Sequence[str]]) -> None:
        self._jobs = jobs
        self._makers = makers

    async def create(
        self,
        pipeline: Pipeline,
        asker: Principal,
        wish: VideoRequest,
        image: bytes | None,
        *,
        remixed_from: str | None = None,
    ) -> Video:
        """Queue a clip. Raises `BadInput` if the picture came twice."""
        notes = None if remixed_from is None else {"remixed_from": remixed_from}
        job = await generate(
            self._jobs,
            asker,
            pipeline,
            wish,
            image=image,
            prefix="video",
            notes=notes,
            retention_s=RETENTION_S,
        )
        return seen(job)

    async def get(self, video_id: str, owner: str) -> Video:
        """A clip of that owner. Raises `NotFound`."""
        job = await self._job(video_id, owner)
        shown = await self._previews(job)
        return replace(seen(job), previews=len(shown))

    async def many(
        self, owner: str, *, after: str | None, limit: int, oldest_first: bool
    ) -> list[Video]:
        """Clips of an owner in order, those behind `after`."""
        found = await self._jobs.store.many(
            owner,
            ids=None,
            state=None,
            after=after,
            limit=limit,
            pipelines=self._makers(),
            oldest_first=oldest_first,
            results=True,
        )
        return [seen(job) for job in found]

    async def picture(self, video: Video) -> bytes | None:
        """The picture that it started from, if it came as a file."""
        job = await self._jobs.store.get(video.id)
        if job is None:
            return None
        async with self._jobs.inputs.ready(job) as path:
            return None if path is None else await asyncio.to_thread(path.read_bytes)

    async def content(self, video: Video, variant: Variant) -> Path:
        """A file of a completed clip, or the newest preview. Raises `NotFound`."""
        job = await self._jobs.store.get(video.id)
        path = None
        if job is not None and job.state == "completed":
            path = await asyncio.to_thread(self._jobs.results.path, job, FILES[variant])
        elif job is not None:
            path = next(reversed(await self._previews(job)), None)
        if path is None:
            raise NotFound(f"the file of {video.id!r} is gone", where="videos")
        return path

    async def delete(self, video_id: str, owner: str) -> None:
        """Remove a clip with its files, stopping its work. Raises `NotFound`."""
        await self._job(video_id, owner)
        await self._jobs.delete(video_id, owner)

    async def _previews(self, job: Job) -> list[Path]:
        if job.state != "running" or not job.options.get("previews"):
            return []
        return await asyncio.to_thread(self._jobs.results.previews, job)

    async def _job(self, video_id: str, owner: str) -> Job:
        job = await self._jobs.store.get(video_id, owner)
        if job is None or job.pipeline not in self._makers():
            raise NotFound(f"no video {video_id!r:.60}", where="videos")
        return job


def seen(job: Job) -> Video:
    """A job as a clip."""
    wish = VideoRequest.model_validate({**job.options, "prompt": job.input["prompt"]})
    files: list[Json] = (job.result or {}).get("files", [])
    made: Json = files[0] if files else {}
    notes: Json = job.input.get("notes", {})
    status = _STATUS[job.state]
    share = 100 * job.done / job.total if job.total else 0.0
    error = job.error or (
        {"code": "cancelled", "message": "it was cancelled"} if job.state == "cancelled" else None
    )
    return Video(
        job.id,
        job.pipeline,
        wish,
        job.created_at.timestamp(),
        status,
        100.0 if status == "completed" else min(share, 99.0),
        job.finished_at.timestamp() if job.finished_at else None,
        job.expires_at.timestamp() if job.expires_at else None,
        f"{made['width']}x{made['height']}" if made else "",
        made.get("seconds"),
        (error["code"], error["message"]) if error else None,
        notes.get("remixed_from"),
        made.get("meta", {}),
    )
