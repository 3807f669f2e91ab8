"""`/v1/audio/transcriptions` and `/v1/audio/translations`: OpenAI's routes on a file pipeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from ...components.errors import ComponentFailed, MotetError
from ...components.frames import Data, Frame, MediaFile, Segment
from ...components.media import probe
from ...components.transcription import kind_of
from ...pipelines.pipeline import Pipeline
from ..access.auth import Principal
from ..described import FILE, answers, body, fields
from ..hangup import while_connected
from ..needs import TRANSCRIPTION
from ..problems import errors, of_error
from ..server import Server, principal_of, server_of
from ..streamed import Streamed
from ..upload import received
from .formats import delta, done, render, sse
from .references import references
from .request import AudioRequest, TranslationRequest, parse

router = APIRouter()
_TEXTS = ("application/json", "text/plain", "application/x-subrip", "text/vtt")


@router.post(
    "/v1/audio/transcriptions",
    response_model=None,
    openapi_extra=body(form=fields(AudioRequest, file=FILE)),
    responses={200: answers(*_TEXTS, "text/event-stream"), **errors(413)},
)
async def transcriptions(
    request: Request,
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """Text of an uploaded file, whole or streamed. Hanging up stops the work."""
    return await _answer(request, server, asker, AudioRequest, "transcribe")


@router.post(
    "/v1/audio/translations",
    response_model=None,
    openapi_extra=body(form=fields(TranslationRequest, file=FILE)),
    responses={200: answers(*_TEXTS), **errors(413)},
)
async def translations(
    request: Request,
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """English text of an uploaded file."""
    return await _answer(request, server, asker, TranslationRequest, "translate")


async def _answer(
    request: Request, server: Server, asker: Principal, kind: type[AudioRequest], task: str
) -> Response:
    folder = server.settings.data_dir / "uploads"
    async with AsyncExitStack() as stack:
        form = await stack.enter_async_context(
            received(request, folder, limit_bytes=server.settings.max_upload_bytes)
        )
        asked = parse(form, kind)
        upload = form.file("file")
        speakers = await stack.enter_async_context(references(asked, folder))
        await asyncio.to_thread(probe, upload.path, upload.filename)
        pipeline = server.find(asked.model, TRANSCRIPTION)
        file = MediaFile(str(upload.path), upload.filename, asked.options(speakers, task))
        run = pipeline.ask(file, key=asker.name, priority=asker.priority)
        if asked.stream:
            # The files live until the stream ends, which is after this function returns.
            files = stack.pop_all()
            events = _events(run, asked)
            return Streamed(events, "text/event-stream", events.aclose, files.aclose)
        transcript = await while_connected(request, _transcript(run, pipeline))
    text, media_type = render(transcript, asked)
    return Response(text, media_type=media_type)


async def _transcript(run: AsyncGenerator[Frame], pipeline: Pipeline) -> dict[str, Any]:
    async with aclosing(run) as frames:
        async for frame in frames:
            if isinstance(frame, Data) and kind_of(frame) == "transcript":
                return frame.value
    raise ComponentFailed("it ended without a transcript", where=pipeline.name)


async def _events(run: AsyncGenerator[Frame], asked: AudioRequest) -> AsyncGenerator[str]:
    """The transcript as it comes, then the whole; a fault on the way is an `error` event."""
    first = True
    async with aclosing(run) as frames:
        try:
            async for frame in frames:
                if isinstance(frame, Segment):
                    yield sse(delta(frame, first=first, request=asked))
                    first = False
                elif isinstance(frame, Data) and kind_of(frame) == "transcript":
                    for event in done(frame.value, asked):
                        yield sse(event)
        except MotetError as error:
            yield sse({"type": "error", **json.loads(bytes(of_error(error).body))})
