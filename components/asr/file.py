"""Whole files to text: read, cut at pauses, decoded in parallel, checked, stitched by time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from ..base import Component, Context, Setup
from ..errors import BadInput
from ..frames import Data, Frame, MediaFile, Progress, Segment
from ..models import lacking, locate
from ..speech import SileroModel, speech_model
from ..transcription import kind_of
from .file_decode import ChunkText
from .file_options import FileOptions
from .file_result import known_chunk
from .file_work import FileWork, Lanes
from .whisper import Whisper


class FileAsr(Component):
    """A `MediaFile` in; progress, segments as they come, kept chunks and the transcript out.

    "known_chunk" data behind the file are results of an earlier run: those chunks aren't decoded
    again. Each core decodes batches of its own; all files share the cores.
    """

    accepts: ClassVar[tuple[type[Frame], ...]] = (MediaFile, Data)
    emits: ClassVar[tuple[type[Frame], ...]] = (Progress, Segment, Data)
    options = FileOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = FileOptions.model_validate(dict(setup.options))
        self._model = setup.model or "whisper-base"
        self._lanes = setup.resources.threads
        self._pool = ThreadPoolExecutor(self._lanes, thread_name_prefix=f"{setup.node} decode")
        self._readers = ThreadPoolExecutor(
            max(2, setup.concurrency), thread_name_prefix=f"{setup.node} read"
        )
        self._engine: Whisper | None = None
        self._vad: SileroModel | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        """The models that aren't installed."""
        return [*lacking(setup.model or "whisper-base"), *lacking("silero-vad")]

    async def load(self) -> None:
        """Read the models, one copy for all cores."""

        def read() -> None:
            self._engine = Whisper(
                locate(self._model),
                device=self._options.device,
                compute_type=self._options.compute_type,
                threads=1,
                workers=self._lanes,
            )
            self._vad = speech_model(self._options.vad)

        await asyncio.get_running_loop().run_in_executor(self._pool, read)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """See the class. Raises `BadInput` where the file or an option can't be used."""
        context.check(where=self.setup.node)
        file: MediaFile | None = None
        known: dict[str, ChunkText] = {}
        async for frame in frames:
            if isinstance(frame, MediaFile):
                if file is not None:
                    raise BadInput("one file a request", where=self.setup.node)
                file = frame
            elif isinstance(frame, Data) and kind_of(frame) == "known_chunk":
                key, text = known_chunk(frame.value)
                known[key] = text
        if file is None:
            return
        if self._engine is None or self._vad is None:
            raise RuntimeError(f"{self.setup.node} is not loaded")
        lanes = Lanes(self._lanes, self._pool, self._readers)
        work = FileWork(lanes, self._engine, self._vad, self._options, file, known)
        try:
            async for frame in work.frames():
                yield frame
        finally:
            await work.cancel()

    async def close(self) -> None:
        """Wait for the batches at work, drop the others."""
        for pool in (self._pool, self._readers):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
