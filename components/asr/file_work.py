"""One file on its way through reading, decoding and stitching."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ..base import Fellows
from ..frames import Frame, MediaFile, Progress
from ..speech import SileroModel
from ..transcription import TranscribeOptions, options_of
from .file_batches import Batches, Sizes
from .file_chunks import Chunk
from .file_decode import Ask, ChunkDecoder, ChunkText
from .file_lanes import Lanes
from .file_language import LanguageVote
from .file_options import FileOptions
from .file_result import Transcript, chunk_data
from .file_schedule import Schedule
from .file_source import ChunkSource
from .tokens import Tokens
from .whisper import Whisper

Answer = TypeVar("Answer")

_CONTEXT_TOKENS = 200
_AHEAD_BATCHES = 5
# Where nobody speaks, progress is told each minute: hours of silence look stuck otherwise.
_TELL_S = 60.0


@dataclass(frozen=True, slots=True)
class Models:
    """What a replica has loaded, for all of its files."""

    engine: Whisper
    decoder: ChunkDecoder
    vad: SileroModel


class FileWork:
    """One file on its way: a task that reads ahead, and one for each batch at work."""

    def __init__(
        self,
        models: Models,
        lanes: Lanes,
        settings: FileOptions,
        file: MediaFile,
        known: dict[str, ChunkText],
        fellows: Fellows | None = None,
    ) -> None:
        self._lanes = lanes
        self._settings = settings
        self._asked = asked = options_of(file)
        self._file = file
        self._vad = models.vad
        self._known = known
        self._reading: asyncio.Task[None] | None = None
        self._blocks: Iterator[list[Chunk]] | None = None
        self._read_all = False
        self._schedule: Schedule[ChunkText] = Schedule()
        settled = asked.language or settings.language
        tokens = models.engine.tokens
        if settled is not None or not tokens.multilingual:
            settled = tokens.check_language(settled)
        self._vote = LanguageVote(settled, asked.languages)
        self._batches = Batches(
            self._schedule,
            lanes,
            models.decoder,
            _ask(tokens, asked, settings),
            self._vote,
            Sizes(settings.batch, settings.first_batch, settings.batch_frames),
            name=file.name,
            fellows=fellows,
        )

    async def frames(self) -> AsyncIterator[Frame]:
        """Everything that comes of the file, in order of time."""
        source = await self._in_reader(self._open)
        self._blocks = iter(source)
        transcript = Transcript(source.tracks)
        told_s = 0.0
        while self._schedule.outstanding or self._batches.at_work or not self._read_all:
            self._start_work()
            await self._step()
            for chunk, text in self._schedule.leave():
                end_s = min(chunk.start_s + chunk.duration_s, source.reader.report.read_s)
                if chunk.key not in self._known:
                    yield chunk_data(chunk, text)
                for segment in transcript.add(chunk, text, end_s):
                    yield segment
                told_s = max(told_s, end_s)
                yield Progress(told_s, max(source.duration_s, told_s))
            read_s = source.reader.report.read_s
            if self._schedule.outstanding == 0 and read_s - told_s >= _TELL_S:
                told_s = read_s
                yield Progress(read_s, max(source.duration_s, read_s))
        yield Progress(source.duration_s, source.duration_s)
        yield transcript.data(self._vote, source.reader.report, self._asked.task)

    async def _step(self) -> None:
        """Wait until a batch is decoded or a block read; what failed there is raised here."""
        reading = {self._reading} if self._reading else set[asyncio.Task[None]]()
        done, _ = await asyncio.wait(
            self._batches.news | reading,
            timeout=self._batches.patience_s(),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._reading is not None and self._reading in done:
            self._reading.result()
            self._reading = None
        self._batches.settle(done)

    def _open(self) -> ChunkSource:
        settings = self._settings
        return ChunkSource(
            self._file.path,
            self._file.name,
            self._vad,
            settings.cutting(self._asked),
            split=self._asked.channels == "separate",
            limit_s=settings.longest_h * 3600,
        )

    def _start_work(self) -> None:
        """Keep the reader a few batches ahead, and as many batches at work as there are lanes."""
        ahead = self._settings.batch * (_AHEAD_BATCHES + self._batches.width)
        if self._reading is None and not self._read_all and self._schedule.outstanding < ahead:
            self._reading = asyncio.create_task(self._read(), name=f"read {self._file.name}")
        self._batches.start(reading=self._reading is not None, read_all=self._read_all)

    async def _read(self) -> None:
        assert self._blocks is not None
        chunks = await self._in_reader(lambda: next(self._blocks or iter(()), None))
        if chunks is None:
            self._read_all = True
            return
        for chunk in chunks:
            known = self._known.get(chunk.key)
            if known is None:
                self._schedule.add(chunk)
            else:
                self._schedule.add_done(chunk, known)

    async def _in_reader(self, call: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._lanes.readers, call)

    async def cancel(self) -> None:
        """Stop: what runs in threads ends at its next step, and nobody waits for it."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._batches.cancel()


def _ask(tokens: Tokens, asked: TranscribeOptions, settings: FileOptions) -> Ask:
    hints = [*([", ".join(asked.hotwords)] if asked.hotwords else []), asked.prompt or ""]
    text = " ".join(hint.strip() for hint in hints if hint.strip())
    context = tokens.encode(f" {text}")[-_CONTEXT_TOKENS:] if text else []
    return Ask(
        task=asked.task,
        context=tuple(context),
        beam_size=asked.beam_size or settings.beam_size,
        temperature=settings.temperature if asked.temperature is None else asked.temperature,
    )
