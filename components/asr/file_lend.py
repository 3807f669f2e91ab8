"""Batches of a file that other replicas decode: how they travel, and both ends of the way.

A lender asks for a lane; the fellow says that it has one, or refuses; only then the batch is chosen
and sent. So what can't be decoded there is never held up by the asking.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..base import Fellows
from ..errors import BadInput, ComponentFailed
from ..frames import Audio, Data, Frame
from ..mel import RATE_HZ
from ..transcription import kind_of
from .file_chunks import Chunk
from .file_decode import Ask, ChunkDecoder, ChunkText
from .file_lanes import Lanes
from .file_language import LanguageVote
from .file_result import chunk_data, known_chunk


def lends(frame: Frame | None) -> bool:
    """Whether a run that begins with it is one of a lender."""
    return isinstance(frame, Data) and kind_of(frame) == "lend"


class LentLane:
    """A lane of a fellow, for one batch. Close it in any case."""

    def __init__(self, fellows: Fellows) -> None:
        self._batch: asyncio.Future[list[Frame]] = asyncio.get_running_loop().create_future()
        self._answers = fellows.call(self._frames())

    async def _frames(self) -> AsyncIterator[Frame]:
        yield Data({"kind": "lend"})
        for frame in await self._batch:
            yield frame

    async def granted(self) -> None:
        """Wait until it is there.

        Raises:
            Overloaded: no fellow has a free one.
            MetotError: the fellow failed.
        """
        await self._next("lane")

    async def decode(
        self, chunks: Sequence[Chunk], ask: Ask, vote: LanguageVote
    ) -> list[ChunkText]:
        """The text of each chunk, as `ChunkDecoder` has it; the vote counts what was heard.

        Raises:
            MotetError: the fellow failed or is gone.
        """
        self._batch.set_result(_packed(chunks, ask, vote))
        texts = [known_chunk(await self._next("chunk"))[1] for _ in chunks]
        vote.count((await self._next("heard"))["seconds"])
        return texts

    async def _next(self, kind: str) -> dict[str, Any]:
        frame = await anext(self._answers, None)
        if not isinstance(frame, Data) or kind_of(frame) != kind:
            raise ComponentFailed(f"expected {kind!r} of a fellow, got {frame!r:.100}")
        return frame.value

    async def aclose(self) -> None:
        """Give it back; what runs there stops."""
        close = getattr(self._answers, "aclose", None)
        if close is not None:
            await close()


def _packed(chunks: Sequence[Chunk], ask: Ask, vote: LanguageVote) -> list[Frame]:
    told: dict[str, Any] = {
        "kind": "batch",
        "ask": asdict(ask),
        "language": vote.settled,
        "languages": sorted(vote.allowed),
        "heard": vote.totals,
        "chunks": [[one.track, one.start, one.speech_s, one.spans] for one in chunks],
    }
    return [Data(told), *(Audio(one.pcm, RATE_HZ) for one in chunks)]


async def _unpacked(frames: AsyncIterator[Frame]) -> tuple[list[Chunk], Ask, LanguageVote] | None:
    """The batch that a lender sends; None when it has none after all.

    Raises:
        BadInput: what comes is no batch.
    """
    told = await anext(frames, None)
    if told is None:
        return None
    sounds = [frame.pcm async for frame in frames if isinstance(frame, Audio)]
    try:
        value: Any = told.value if isinstance(told, Data) else {}
        chunks = [
            Chunk(track, start, pcm, speech_s, tuple((low, high) for low, high in spans))
            for (track, start, speech_s, spans), pcm in zip(value["chunks"], sounds, strict=True)
        ]
        ask = replace(Ask(**value["ask"]), context=tuple(value["ask"]["context"]))
        return chunks, ask, LanguageVote(value["language"], value["languages"], value["heard"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"this is no batch of chunks: {type(error).__name__}: {error}") from error


async def help_out(
    frames: AsyncIterator[Frame], lanes: Lanes, decoder: ChunkDecoder, *, where: str
) -> AsyncIterator[Frame]:
    """Serve a lender: one batch on a lane that is free now. `frames` follow its first one.

    Raises:
        Overloaded: all lanes are at work.
        BadInput: what comes is no batch.
    """
    lane = lanes.take_free(where=where)
    stop = threading.Event()
    try:
        yield Data({"kind": "lane"})
        batch = await _unpacked(frames)
        if batch is None:
            return
        chunks, ask, vote = batch
        texts = await lane.run(lambda: decoder.decode(chunks, ask, vote, stop))
        for chunk, text in zip(chunks, texts, strict=True):
            yield chunk_data(chunk, text)
        yield Data({"kind": "heard", "seconds": vote.heard})
    finally:
        stop.set()
        lane.give_up()
