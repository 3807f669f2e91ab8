"""Recognition and synthesis on a pipeline: what the typed service and Riva's methods share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager

from ...components.errors import BadInput, error_of
from ...components.frames import (
    Audio,
    End,
    Fault,
    Frame,
    TextDelta,
    Transcript,
    Voice,
)
from ...pipelines.pipeline import Pipeline
from ...pipelines.session import Session
from ...pipelines.version import Version
from ..abilities import Unspoken
from .door import Caller

_AROUND_BYTES = 1024


async def transcripts(
    pipeline: Pipeline,
    audio: AsyncIterator[Audio],
    settings: Sequence[Frame],
    caller: Caller,
) -> AsyncGenerator[Transcript]:
    """What is said in a stream of audio, as its utterances end (and before, if asked for).

    `settings` are control frames that go in first. Closing the iterator ends the session.

    Raises:
        MotetError: what a component's fault stands for, or a bad frame of the audio.
    """

    async def feed(session: Session) -> None:
        for frame in settings:
            await session.send(frame)
        async for frame in audio:
            await session.send(frame)
        session.finish()

    async with _session(pipeline, caller) as session, _beside(feed(session), session):
        async for turn, node, frame in session:
            if isinstance(frame, Transcript):
                yield frame
            elif isinstance(frame, Fault):
                raise error_of(frame.code, frame.message, where=node)
            elif isinstance(frame, End) and turn == 0:
                return


async def whole(
    parts: AsyncGenerator[bytes], most_bytes: int, *, beside: int = 0, instead: str
) -> bytes:
    """Speech as one answer; what can't fit in a message, with `beside` bytes of other fields, is
    given up as soon as that shows.

    Raises:
        BadInput: it is longer; `instead` names the method that streams.
    """
    made = bytearray()
    async with aclosing(parts):
        async for part in parts:
            made += part
            if len(made) + beside > most_bytes - _AROUND_BYTES:
                raise BadInput(
                    f"the speech of this text is longer than a message may be, {most_bytes} bytes;"
                    f" {instead} sends it in pieces",
                    param="text",
                )
    return bytes(made)


async def speech(
    pipeline: Pipeline | Version, texts: AsyncIterator[str], voice: Voice, caller: Caller
) -> AsyncGenerator[Audio]:
    """A text that comes in pieces, spoken: each clause as soon as it is whole.

    Raises:
        Unspoken: the voice makes no sound of it.
        MotetError: what a component's fault stands for.
    """
    heard = False

    async def feed(session: Session) -> None:
        await session.send(voice, turn=1)
        async for text in texts:
            await session.send(TextDelta(text), turn=1)
        session.finish(1)

    async with _session(pipeline, caller) as session:
        session.open(1)
        async with _beside(feed(session), session):
            async for turn, node, frame in session:
                if isinstance(frame, Audio):
                    heard = heard or len(frame.pcm) > 0
                    yield frame
                elif isinstance(frame, Fault):
                    raise error_of(frame.code, frame.message, where=node)
                elif isinstance(frame, End) and turn == 1:
                    break
    if not heard:
        raise Unspoken(pipeline.name, "text")


@asynccontextmanager
async def _session(pipeline: Pipeline | Version, caller: Caller) -> AsyncGenerator[Session]:
    made = pipeline.session(
        deadline_s=caller.deadline_s,
        key=caller.name,
        trace=caller.trace,
        priority=caller.priority,
    )
    async with made as session:
        yield session


@asynccontextmanager
async def _beside(work: Awaitable[None], session: Session) -> AsyncGenerator[None]:
    """Run `work` meanwhile; if it fails, the session is closed and its error raised here."""
    task = asyncio.ensure_future(_closing_on_error(work, session))
    try:
        yield
    finally:
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(result, Exception):
        raise result


async def _closing_on_error(work: Awaitable[None], session: Session) -> None:
    try:
        await work
    except Exception:
        await session.close()
        raise
