"""`/v1/audio/speech`: text to audio, streamed from its first clause on, in OpenAI's formats."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from ...components.audio import to_float
from ...components.errors import BadInput, MotetError
from ...components.frames import Audio, Frame, TextDelta
from ...components.media_mix import Resampler
from ...components.media_write import MEDIA_TYPES, AudioFormat, SpeechEncoder
from ..abilities import Unspoken, wished
from ..access.auth import Principal
from ..described import answers
from ..hangup import while_connected
from ..needs import SPEECH
from ..problems import of_error
from ..server import Server, principal_of, server_of
from ..streamed import Streamed

router = APIRouter()

PCM_HZ = 24_000
LONGEST = 200_000


class VoiceId(BaseModel):
    """A voice as an object."""

    model_config = ConfigDict(extra="forbid")

    id: str


class SpeechRequest(BaseModel):
    """The body. A voice of OpenAI's that the engine doesn't have means its default one."""

    model_config = ConfigDict(extra="forbid")

    model: str
    input: str = Field(min_length=1, max_length=LONGEST)
    voice: str | VoiceId | None = None
    instructions: str | None = None
    response_format: AudioFormat = "mp3"
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    stream_format: Literal["audio", "sse"] = "audio"


@router.post(
    "/v1/audio/speech",
    response_class=Response,
    responses={200: answers(*MEDIA_TYPES.values(), "text/event-stream")},
)
async def speech(
    request: Request,
    body: SpeechRequest,
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """Speak a text. The answer begins with the first clause; hanging up stops the work.

    Raises:
        BadInput: the engine has no such voice, and OpenAI hasn't either; or it can't say the text.
    """
    if body.instructions:
        raise BadInput(
            "no voice here follows instructions; leave it out, and choose `voice` and `speed`",
            param="instructions",
        )
    pipeline = server.find(body.model, SPEECH)
    name = body.voice.id if isinstance(body.voice, VoiceId) else body.voice
    said = (wished(name, body.speed), TextDelta(body.input))
    run = pipeline.ask(*said, key=asker.name, priority=asker.priority)
    heard = _audio(run)
    first = await while_connected(request, anext(heard, None))
    if first is None:
        raise Unspoken(pipeline.name, "input")
    pieces = _encoded(first, heard, body.response_format)
    if body.stream_format == "sse":
        events = _events(pieces, body)
        return Streamed(events, "text/event-stream", events.aclose, heard.aclose)
    kind = MEDIA_TYPES[body.response_format]
    return Streamed(pieces, kind, pieces.aclose, heard.aclose)


async def _audio(run: AsyncGenerator[Frame]) -> AsyncGenerator[Audio]:
    async with aclosing(run) as frames:
        async for frame in frames:
            if isinstance(frame, Audio) and len(frame.pcm):
                yield frame


async def _encoded(
    first: Audio, rest: AsyncGenerator[Audio], audio_format: AudioFormat
) -> AsyncGenerator[bytes]:
    """The audio at 24 kHz in the wanted format, a piece for each frame that makes one."""
    encoder = SpeechEncoder(audio_format, PCM_HZ)
    resampler = Resampler(first.rate_hz, PCM_HZ)
    async with aclosing(rest) as frames:
        yield await asyncio.to_thread(_encode, encoder, resampler, first)
        async for frame in frames:
            piece = await asyncio.to_thread(_encode, encoder, resampler, frame)
            if piece:
                yield piece
        yield await asyncio.to_thread(_finish, encoder, resampler)


def _encode(encoder: SpeechEncoder, resampler: Resampler, frame: Audio) -> bytes:
    return encoder.push(resampler.push(to_float(frame.pcm)))


def _finish(encoder: SpeechEncoder, resampler: Resampler) -> bytes:
    tail = resampler.finish()
    return (encoder.push(tail) if len(tail) else b"") + encoder.finish()


async def _events(pieces: AsyncGenerator[bytes], body: SpeechRequest) -> AsyncGenerator[str]:
    """The audio as server-sent events; a fault on the way is an `error` event."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                if piece:
                    audio = base64.b64encode(piece).decode()
                    yield _sse({"type": "speech.audio.delta", "audio": audio})
            usage = {"type": "characters", "input_characters": len(body.input)}
            yield _sse({"type": "speech.audio.done", "usage": usage})
        except MotetError as error:
            yield _sse({"type": "error", **json.loads(bytes(of_error(error).body))})


def _sse(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
