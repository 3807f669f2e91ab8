"""`/v1/videos`: ask for a clip, watch it being made, fetch it, list, delete, remix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import FileResponse

from .. import described
from ..access.auth import Principal
from ..described import answers
from ..images.request import from_form
from ..images.routes import IMAGE_BYTES, json_of, makers, picture_of
from ..jobs.door import JobsDoor, has_jobs
from ..needs import CLIPS
from ..problems import errors
from ..server import Server, lacking, principal_of, server_of
from ..upload import Form, received
from .request import RemixRequest, VideoRequest
from .store import NotFound, NotReady, Variant, Video, VideoStore
from .tasks import VideoTasks

router = APIRouter(responses=errors(404))
Json = dict[str, Any]
TYPES = {"video": "video/mp4", "thumbnail": "image/webp", "spritesheet": "image/jpeg"}


Asker = Annotated[Principal, Depends(principal_of)]


async def store_of(request: Request, asker: Asker) -> VideoStore:
    """FastAPI dependency: the clips of this server. `asker` comes first, so that nobody without a
    key starts what makes them.

    Raises:
        NotFound: no pipeline here makes clips.
    """
    server = server_of(request)
    if not makers(server, clips=True):
        raise NotFound(lacking(CLIPS), where="videos")
    return await request.app.state.videos.store()


Store = Annotated[VideoStore, Depends(store_of)]
Ours = Annotated[Server, Depends(server_of)]


class ClipsDoor:
    """The way to a server's clips: as jobs, or, where there can be none, for as long as it lives.
    Use it as a context."""

    def __init__(self, jobs: JobsDoor, server: Server) -> None:
        self._jobs = jobs
        self._server = server
        self._tasks: VideoTasks | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> ClipsDoor:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def store(self) -> VideoStore:
        """Whoever makes and keeps the clips. Raises what starting the jobs' engine raises."""
        if has_jobs(self._server):
            from .jobs import VideoJobs

            return VideoJobs(await self._jobs.jobs(), self._names)
        async with self._opening:
            if self._tasks is None:
                tasks = VideoTasks(self._server.settings.data_dir / "videos")
                self._tasks = await self._stack.enter_async_context(tasks)
        return self._tasks

    def _names(self) -> list[str]:
        return [pipeline.name for pipeline in makers(self._server, clips=True)]


@asynccontextmanager
async def opened(app: FastAPI, jobs: JobsDoor) -> AsyncGenerator[None]:
    """Make and keep clips while the app lives, once a pipeline makes some."""
    async with ClipsDoor(jobs, app.state.server) as door:
        app.state.videos = door
        yield


@router.post(
    "/v1/videos",
    openapi_extra=described.body(
        json=VideoRequest,
        form=described.fields(VideoRequest, needed=False, input_reference=described.FILE),
    ),
    responses=errors(413),
)
async def create(request: Request, server: Ours, store: Store, asker: Asker) -> Json:
    """Ask for a clip, by JSON or a form; the answer comes at once, the clip later."""
    kind = request.headers.get("content-type", "")
    if "multipart" not in kind:
        body = await json_of(request, VideoRequest)
        return await take(server, store, asker, body, None)
    limit = min(IMAGE_BYTES, server.settings.max_upload_bytes)
    folder = server.settings.data_dir / "uploads"
    async with received(request, folder, limit_bytes=limit) as form:
        image = await picture_of(form, "input_reference") if form.files else None
        body = from_form(referenced(form), VideoRequest)
    return await take(server, store, asker, body, image)


def referenced(form: Form) -> Form:
    """The form with `input_reference[image_url]` as the object that it stands for."""
    fields = [
        (name, {"image_url": value})
        if name == "input_reference[image_url]"
        else (name, value)
        for name, value in form.fields
    ]  # fmt: skip
    named: list[Any] = [(name.split("[")[0], value) for name, value in fields]
    return replace(form, fields=named)


async def take(
    server: Server, store: VideoStore, asker: Principal, body: VideoRequest, image: bytes | None
) -> Json:
    """Hand a request to the store; what can't be read in it is told now."""
    pipeline = server.find(body.model, CLIPS)
    pipeline.refuse(body.frame(image))
    return shape(await store.create(pipeline, asker, body, image))


@router.get("/v1/videos")
async def listed(
    store: Store,
    asker: Asker,
    after: str | None = None,
    limit: int = 20,
    order: Literal["asc", "desc"] = "desc",
) -> Json:
    """The key's clips; `after` is the id that the last page ended with."""
    if after is not None:
        await store.get(after, asker.name)
    limit = min(max(limit, 1), 100)
    found = await store.many(asker.name, after=after, limit=limit + 1, oldest_first=order == "asc")
    page = [shape(video) for video in found[:limit]]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(found) > limit,
    }


@router.get("/v1/videos/{video_id}")
async def watched(store: Store, asker: Asker, video_id: str) -> Json:
    """How far a clip is."""
    return shape(await store.get(video_id, asker.name))


@router.get(
    "/v1/videos/{video_id}/content",
    response_class=FileResponse,
    responses={200: answers(*TYPES.values()), 206: answers(*TYPES.values()), **errors(409)},
)
async def content(
    store: Store, asker: Asker, video_id: str, variant: Variant = "video"
) -> FileResponse:
    """The clip, its middle frame (of one being made the newest preview), or a sheet of frames."""
    video = await store.get(video_id, asker.name)
    shown = video.status == "in_progress" and variant == "thumbnail" and video.previews
    if video.status != "completed" and not shown:
        raise NotReady(f"the video is {video.status}", where=video_id)
    path = await store.content(video, variant)
    return FileResponse(path, media_type=TYPES[variant], filename=path.name)


@router.delete("/v1/videos/{video_id}")
async def deleted(store: Store, asker: Asker, video_id: str) -> Json:
    """Remove a clip; one that is being made is stopped."""
    await store.delete(video_id, asker.name)
    return {"id": video_id, "object": "video.deleted", "deleted": True}


@router.post("/v1/videos/{video_id}/remix", openapi_extra=described.body(json=RemixRequest))
async def remix(request: Request, server: Ours, store: Store, asker: Asker, video_id: str) -> Json:
    """The same request with other words; with the same seed, so that what can stay does."""
    body: RemixRequest = await json_of(request, RemixRequest)
    old = await store.get(video_id, asker.name)
    seed = old.meta.get("seed", old.wish.seed)
    wish = old.wish.model_copy(update={"prompt": body.prompt, "seed": seed})
    pipeline, image = server.pipelines[old.model], await store.picture(old)
    return shape(await store.create(pipeline, asker, wish, image, remixed_from=video_id))


def shape(video: Video) -> Json:
    """A clip as clients see it; `motet` tells its seed and what was saved."""
    size = video.size or video.wish.size or "auto"
    seconds = video.seconds or video.wish.seconds
    error = {"code": video.error[0], "message": video.error[1]} if video.error else None
    return {
        "id": video.id,
        "object": "video",
        "model": video.model,
        "status": video.status,
        "progress": int(video.progress),
        "created_at": int(video.created_at),
        "completed_at": int(video.completed_at) if video.completed_at else None,
        "expires_at": int(video.expires_at) if video.expires_at else None,
        "prompt": video.wish.prompt,
        "size": size,
        "seconds": f"{seconds:g}" if seconds else "auto",
        "error": error,
        "remixed_from_video_id": video.remixed_from,
        "motet": {**video.meta, "previews": video.previews} if video.previews else video.meta,
    }
