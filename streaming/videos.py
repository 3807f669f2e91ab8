"""`/v1/videos`: ask for a clip, watch it being made, fetch it, list, delete, remix."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import FileResponse

from .auth import Principal
from .images import IMAGE_BYTES, chosen, json_of, makers, picture_of
from .imagesrequest import from_form
from .server import Server, principal_of, server_of
from .upload import Form, received
from .videosrequest import RemixRequest, VideoRequest
from .videostasks import VideoTasks
from .videostore import NotFound, NotReady, Variant, Video, VideoStore

router = APIRouter()
Json = dict[str, Any]
TYPES = {"video": "video/mp4", "thumbnail": "image/webp", "spritesheet": "image/jpeg"}


def store_of(request: Request) -> VideoStore:
    """FastAPI dependency: the clips of this server.

    Raises:
        NotFound: no pipeline here makes clips.
    """
    found: VideoStore | None = getattr(request.app.state, "videos", None)
    if found is None:
        raise NotFound("no pipeline of this server makes clips", where="videos")
    return found


Store = Annotated[VideoStore, Depends(store_of)]
Asker = Annotated[Principal, Depends(principal_of)]
Ours = Annotated[Server, Depends(server_of)]


@asynccontextmanager
async def opened(app: FastAPI, server: Server) -> AsyncGenerator[None]:
    """Keep clips where a pipeline makes them: as jobs, or for as long as the app lives."""
    if not makers(server, clips=True):
        yield
        return
    jobs = getattr(app.state, "jobs", None)
    if jobs is not None:
        from .videosjobs import VideoJobs

        names = lambda: [one.name for one in makers(server, clips=True)]  # noqa: E731
        app.state.videos = VideoJobs(jobs, names)
        yield
        return
    async with VideoTasks(server.settings.data_dir / "videos") as tasks:
        app.state.videos = tasks
        yield


@router.post("/v1/videos")
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
    pipeline = chosen(server, body.model, clips=True)
    body.frame(image)
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


@router.get("/v1/videos/{video_id}/content", response_model=None)
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


@router.post("/v1/videos/{video_id}/remix")
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
