"""`/v1/images/generations` and `/edits`: pictures, or a stream with partial ones on the way."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from ...components.errors import BadInput, ComponentFailed, MotetError
from ...components.frames import Frame, Generate, Image, Progress
from ...pipelines.pipeline import Pipeline
from .. import described
from ..access.auth import Principal
from ..described import answers
from ..hangup import while_connected
from ..needs import CLIPS, PICTURES
from ..problems import errors, of_error
from ..server import Server, meets, principal_of, server_of
from ..streamed import Streamed
from ..upload import Form, received
from .coding import MEDIA_TYPES, as_base64, encoded
from .request import EditRequest, ImageRequest, from_form, validated

router = APIRouter()
Json = dict[str, Any]
Asker = Annotated[Principal, Depends(principal_of)]
Ours = Annotated[Server, Depends(server_of)]
IMAGE_BYTES = 50 * 1024 * 1024


_ANSWERS = answers("application/json", "text/event-stream")


@router.post("/v1/images/generations", response_model=None, responses={200: _ANSWERS})
async def generate(request: Request, body: ImageRequest, server: Ours, asker: Asker) -> Response:
    """Make pictures from words. Hanging up stops the work."""
    return await answer(request, server, asker, body, body.frame(), "image_generation")


@router.post(
    "/v1/images/edits",
    response_model=None,
    openapi_extra=described.body(
        json=EditRequest, form=described.fields(ImageRequest, image=described.FILE)
    ),
    responses={200: _ANSWERS, **errors(413)},
)
async def edit(request: Request, server: Ours, asker: Asker) -> Response:
    """Make pictures from words and a picture, which `strength` says how much to change: from a form
    with a file, or from JSON with a data: URL."""
    if "multipart" not in request.headers.get("content-type", ""):
        asked: EditRequest = await json_of(request, EditRequest)
        return await answer(request, server, asker, asked, asked.edited(), "image_edit")
    limit = min(IMAGE_BYTES, server.settings.max_upload_bytes)
    folder = server.settings.data_dir / "uploads"
    async with received(request, folder, limit_bytes=limit) as form:
        body: ImageRequest = from_form(form, ImageRequest)
        image = await picture_of(form)
    return await answer(request, server, asker, body, body.frame(image), "image_edit")


async def json_of(request: Request, kind: Any) -> Any:
    """A JSON body of that kind.

    Raises:
        BadInput: it is no JSON object, or holds faults.
    """
    try:
        value = await request.json()
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput("the body is no JSON object")
    return validated(kind, value)  # pyright: ignore[reportUnknownArgumentType]


async def picture_of(form: Form, name: str = "image") -> bytes:
    """The one picture of a form.

    Raises:
        BadInput: there is none, several, or something else too.
    """
    files = [(key.removesuffix("[]"), upload) for key, upload in form.files]
    other = sorted({key for key, _ in files} - {name})
    if other:
        raise BadInput(f"{', '.join(other)}: no model here takes that", param=other[0])
    if len(files) != 1:
        raise BadInput(f"one {name} is needed, got {len(files)}", param=name)
    return await asyncio.to_thread(files[0][1].path.read_bytes)


async def answer(
    request: Request,
    server: Server,
    asker: Principal,
    body: ImageRequest,
    asked: Generate,
    event: str,
) -> Response:
    """The whole answer, or its stream."""
    pipeline = server.find(body.model, PICTURES)
    run = painted(pipeline, asked, asker)
    if body.stream:
        first = await while_connected(request, anext(run, None))
        told = events(run, first, body, event)
        return Streamed(told, "text/event-stream", told.aclose, run.aclose)
    images = await while_connected(request, gathered(run))
    items = await asyncio.gather(*(asyncio.to_thread(item, one, body) for one in images))
    return JSONResponse(whole(items, images, body))


def makers(server: Server, *, clips: bool) -> list[Pipeline]:
    """The pipelines that answer `Generate` with clips, or those that answer with pictures."""
    need = CLIPS if clips else PICTURES
    return [one for one in server.pipelines.values() if meets(one, need)]


async def painted(pipeline: Pipeline, asked: Generate, asker: Principal) -> AsyncGenerator[Frame]:
    """What a pipeline makes of it.

    Raises:
        ComponentFailed: at the end, if there are fewer pictures than asked for.
    """
    made = 0
    run = pipeline.ask(asked, key=asker.name, priority=asker.priority)
    async with aclosing(run) as frames:
        async for frame in frames:
            made += isinstance(frame, Image) and not frame.preview
            yield frame
    if made < asked.count:
        said = f"it made {made} of {asked.count} pictures"
        raise ComponentFailed(said, where=pipeline.name)


async def gathered(run: AsyncGenerator[Frame]) -> list[Image]:
    """The finished pictures, in order."""
    async with aclosing(run) as frames:
        found = [one async for one in frames if isinstance(one, Image) and not one.preview]
    return sorted(found, key=lambda one: one.index)


def item(image: Image, body: ImageRequest) -> Json:
    """One picture as the answer has it; `motet` tells its seed and what was saved."""
    text = as_base64(encoded(image.pixels, body.file_format, body.output_compression))
    told = {"motet": dict(image.meta)}
    if body.response_format == "url":
        return {"url": f"data:{MEDIA_TYPES[body.file_format]};base64,{text}", **told}
    return {"b64_json": text, **told}


def whole(items: list[Json], images: list[Image], body: ImageRequest) -> Json:
    """The answer's object."""
    return {
        "created": int(time.time()),
        "data": items,
        **shown(images[0], body),
        "usage": usage(images),
    }


def shown(image: Image, body: ImageRequest) -> Json:
    """What a picture turned out to be."""
    height, width = image.pixels.shape[:2]
    return {
        "background": "opaque",
        "output_format": body.file_format,
        "quality": body.quality or "auto",
        "size": f"{width}x{height}",
    }


def usage(images: list[Image]) -> Json:
    """Tokens of the prompt, which counts once; pictures aren't made of tokens here."""
    text = int(images[0].meta.get("prompt_tokens", 0))
    return {
        "input_tokens": text,
        "output_tokens": 0,
        "total_tokens": text,
        "input_tokens_details": {"image_tokens": 0, "text_tokens": text},
    }


async def events(
    run: AsyncGenerator[Frame], frame: Frame | None, body: ImageRequest, event: str
) -> AsyncGenerator[str]:
    """Server-sent events from the first `frame` on; a fault on the way is an `error` event, and
    leaving stops the work."""
    try:
        async with aclosing(run) as frames:
            while frame is not None:
                for one in await pieces(frame, body, event):
                    yield one
                frame = await anext(frames, None)
    except MotetError as error:
        yield sse({"type": "error", **json.loads(bytes(of_error(error).body))})


async def pieces(frame: Frame, body: ImageRequest, event: str) -> list[str]:
    """The events that a frame makes."""
    if isinstance(frame, Progress) and body.progress:
        return [sse({"type": f"{event}.progress", "done": frame.done, "total": frame.total})]
    if not isinstance(frame, Image):
        return []
    text = await asyncio.to_thread(item, frame, body)
    told = {**text, **shown(frame, body), "created_at": int(time.time())}
    if frame.preview:
        number = int(frame.meta.get("preview", 0))
        return [sse({"type": f"{event}.partial_image", "partial_image_index": number, **told})]
    return [
        sse({"type": f"{event}.completed", "index": frame.index, **told, "usage": usage([frame])})
    ]


def sse(value: Json) -> str:
    """A named server-sent event."""
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n"
