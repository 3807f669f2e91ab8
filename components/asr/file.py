"""Whole files to text: read, cut at pauses, decoded in parallel, checked, stitched by time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ClassVar

from ..base import Component, Context, Setup, closing
from ..errors import BadInput
from ..frames import Data, Frame, Generate, MediaFile, Progress, Segment
from ..models import hub_id, lacking, locate
from ..speech import speech_model
from ..transcription import kind_of, parse_options
from .file_decode import ChunkDecoder, ChunkText
from .file_lanes import Lanes
from .file_lend import help_out, lends
from .file_options import FileOptions
from .file_result import known_chunk
from .file_work import FileWork, Models
from .tokens import Tokens, tokens_of
from .whisper import FILES, Whisper


@cache
def _tokens(model: str) -> Tokens | None:
    """The tokens of a model whose files are here."""
    return None if hub_id(model) or lacking(model, "asr/file", *FILES) else tokens_of(locate(model))


class FileAsr(Component):
    """A `MediaFile` in; progress, segments as they come, kept chunks and the transcript out.

    "known_chunk" data behind the file are results of an earlier run: those chunks aren't decoded
    again. Each core decodes batches of its own; all files share the cores, and a file's batches go
    to other replicas, too, that have a core free.
    """

    accepts: ClassVar[tuple[type[Frame], ...]] = (MediaFile, Data)
    emits: ClassVar[tuple[type[Frame], ...]] = (Progress, Segment, Data)
    options = FileOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = FileOptions.model_validate(dict(setup.options))
        self._model = setup.model or "whisper-base"
        cores = setup.resources.threads
        self._lanes = Lanes(
            cores,
            ThreadPoolExecutor(cores, thread_name_prefix=f"{setup.node} decode"),
            ThreadPoolExecutor(max(2, setup.concurrency), thread_name_prefix=f"{setup.node} read"),
        )
        self._models: Models | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        """The models that aren't installed."""
        return [*lacking(setup.model or "whisper-base", "asr/file", *FILES), *lacking("silero-vad")]

    @classmethod
    def refuse(cls, setup: Setup, asked: MediaFile | Generate) -> None:
        """Refuse a language that the model doesn't know, as far as its files are here."""
        language = parse_options(asked.options).language
        tokens = _tokens(setup.model or "whisper-base") if language else None
        if tokens is not None:
            tokens.check_language(language)

    async def load(self) -> None:
        """Read the models, one copy for all cores."""

        def read() -> Models:
            engine = Whisper(
                locate(self._model),
                device=self._options.device,
                compute_type=self._options.compute_type,
                threads=1,
                workers=self._lanes.count,
            )
            decoder = ChunkDecoder(engine, self._options.checking, self._options.batch_frames)
            return Models(engine, decoder, speech_model(self._options.vad))

        loop = asyncio.get_running_loop()
        self._models = await loop.run_in_executor(self._lanes.decoders, read)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """See the class. Raises `BadInput` where the file or an option can't be used."""
        context.check(where=self.setup.node)
        models = self._models
        if models is None:
            raise RuntimeError(f"{self.setup.node} is not loaded")
        first = await anext(frames, None)
        if lends(first):
            helping = help_out(frames, self._lanes, models.decoder, where=self.setup.node)
            async with closing(helping) as answers:
                async for answer in answers:
                    yield answer
            return
        file, known = await self._asked(first, frames)
        if file is None:
            return
        work = FileWork(models, self._lanes, self._options, file, known, context.fellows)
        try:
            async for frame in work.frames():
                yield frame
        finally:
            await work.cancel()

    async def _asked(
        self, first: Frame | None, frames: AsyncIterator[Frame]
    ) -> tuple[MediaFile | None, dict[str, ChunkText]]:
        """The file, and the chunks of it that are known already."""
        file: MediaFile | None = None
        known: dict[str, ChunkText] = {}
        frame = first
        while frame is not None:
            if isinstance(frame, MediaFile):
                if file is not None:
                    raise BadInput("one file a request", where=self.setup.node)
                file = frame
            elif isinstance(frame, Data) and kind_of(frame) == "known_chunk":
                key, text = known_chunk(frame.value)
                known[key] = text
            frame = await anext(frames, None)
        return file, known

    def utilisation(self) -> float | None:
        return self._lanes.utilisation

    async def close(self) -> None:
        """Wait for the batches at work, drop the others."""
        for pool in (self._lanes.decoders, self._lanes.readers):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
