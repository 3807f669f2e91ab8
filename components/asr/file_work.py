"""One file on its way through reading, decoding and stitching."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ..frames import Frame, MediaFile, Progress
from ..speech import SileroModel
from ..transcription import TranscribeOptions, options_of
from .file_chunks import Chunk
from .file_decode import Ask, ChunkDecoder, ChunkText
from .file_language import LanguageVote
from .file_options import FileOptions
from .file_result import Transcript, chunk_data
from .file_schedule import Schedule
from .file_source import ChunkSource
from .whisper import Whisper

Answer = TypeVar("Answer")

_CONTEXT_TOKENS = 200
_AHEAD_BATCHES = 5
# Where nobody speaks, progress is told each minute: hours of silence look stuck otherwise.
_TELL_S = 60.0


@dataclass(frozen=True, slots=True)
class Lanes:
    """The threads that all files share: `count` batches are decoded at once."""

    count: int
    decoders: ThreadPoolExecutor
    readers: ThreadPoolExecutor


class FileWork:
    """One file on its way: a task that reads ahead, and one for each batch at work."""

    def __init__(
        self,
        lanes: Lanes,
        engine: Whisper,
        vad: SileroModel,
        settings: FileOptions,
        file: MediaFile,
        known: dict[str, ChunkText],
    ) -> None:
        self._lanes = lanes
        self._settings = settings
        self._asked = asked = options_of(file)
        self._file = file
        self._vad = vad
        self._known = known
        self._stop = threading.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._blocks: Iterator[list[Chunk]] | None = None
        self._source: ChunkSource | None = None
        self._read_all = False
        self._batches = 0
        self._schedule: Schedule[ChunkText] = Schedule()
        self._decoder = ChunkDecoder(engine, settings.checking)
        settled = asked.language or settings.language
        if settled is not None or not engine.tokens.multilingual:
            settled = engine.tokens.check_language(settled)
        self._vote = LanguageVote(settled, asked.languages)
        self._ask = _ask(engine, asked, settings)

    async def frames(self) -> AsyncIterator[Frame]:
        """Everything that comes of the file, in order of time."""
        source = self._source = await self._in_reader(self._open)
        self._blocks = iter(source)
        transcript = Transcript(source.tracks)
        told_s = 0.0
        while not (self._read_all and self._schedule.outstanding == 0 and not self._running):
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
        yield transcript.data(self._vote, source.reader.report, self._asked.model_dump())

    async def _step(self) -> None:
        """Wait until a batch is decoded or a block read; what failed there is raised here."""
        tasks = {*self._running, *([self._reading] if self._reading else [])}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            self._running.discard(task)
            if task is self._reading:
                self._reading = None
            task.result()

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
        ahead = self._settings.batch * (_AHEAD_BATCHES + self._lanes.count)
        if self._reading is None and not self._read_all and self._schedule.outstanding < ahead:
            self._reading = asyncio.create_task(self._read(), name=f"read {self._file.name}")
        while len(self._running) < self._lanes.count and self._enough():
            batch = self._schedule.take(self._batch_size())
            self._batches += 1
            task = asyncio.create_task(self._decode(batch), name=f"decode {self._file.name}")
            self._running.add(task)

    def _batch_size(self) -> int:
        """A full batch; towards the end an equal share for each lane, so that none idles."""
        if not self._read_all:
            return self._settings.batch
        share = -(-self._schedule.waiting // self._lanes.count)
        return max(1, min(self._settings.batch, share))

    def _enough(self) -> bool:
        """Whether a batch is worth starting: full, or early, or nothing more to wait for."""
        waiting = self._schedule.waiting
        wanted = self._settings.batch
        if self._batches < self._lanes.count:
            wanted = min(wanted, self._settings.first_batch)
        return waiting >= wanted or (waiting > 0 and self._reading is None)

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

    async def _decode(self, batch: list[tuple[int, Chunk]]) -> None:
        loop = asyncio.get_running_loop()
        chunks = [chunk for _, chunk in batch]
        pool = self._lanes.decoders
        texts = await loop.run_in_executor(
            pool, self._decoder.decode, chunks, self._ask, self._vote, self._stop
        )
        for (number, chunk), text in zip(batch, texts, strict=True):
            self._schedule.finish(number, chunk, text)

    async def _in_reader(self, call: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._lanes.readers, call)

    async def cancel(self) -> None:
        """Stop: what runs in threads ends at its next step, and nobody waits for it."""
        self._stop.set()
        tasks = [*self._running, *([self._reading] if self._reading else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ask(engine: Whisper, asked: TranscribeOptions, settings: FileOptions) -> Ask:
    hints = [*([", ".join(asked.hotwords)] if asked.hotwords else []), asked.prompt or ""]
    text = " ".join(hint.strip() for hint in hints if hint.strip())
    context = engine.tokens.encode(f" {text}")[-_CONTEXT_TOKENS:] if text else []
    return Ask(
        task=asked.task,
        context=tuple(context),
        beam_size=asked.beam_size or settings.beam_size,
        temperature=settings.temperature if asked.temperature is None else asked.temperature,
    )
