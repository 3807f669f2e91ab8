"""What every diarizer shares: it listens beside the transcriber and adds speakers at the end."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import Component, Context, Setup
from ..frames import Data, Frame, MediaFile, Progress, Segment
from ..transcription import (
    TranscribeOptions,
    full_text,
    kind_of,
    options_of,
    segment_from,
    segment_json,
)
from .label import label
from .turns import Turn


@dataclass(frozen=True, slots=True)
class Diarization:
    """Turns in order of time, and a name for each speaker."""

    turns: list[Turn]
    named: dict[int, str]

    def json(self) -> list[dict[str, Any]]:
        """The turns as they stand in results."""
        return [
            {"speaker": self.named[turn.speaker], "start": turn.start_s, "end": turn.end_s}
            for turn in self.turns
        ]


class Diarizer(Component):
    """Adds speakers to the transcript of the same file, or gives the turns alone.

    A `MediaFile` starts it; segments and progress of a transcriber pass on as they come, and its
    transcript leaves with speakers on words and segments. Files that don't ask pass untouched;
    the weights are read for the first one that does.
    """

    accepts: ClassVar[tuple[type[Frame], ...]] = (MediaFile, Segment, Progress, Data)
    emits: ClassVar[tuple[type[Frame], ...]] = (Segment, Progress, Data)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._pool = ThreadPoolExecutor(
            setup.resources.threads, thread_name_prefix=f"{setup.node} voices"
        )
        self._opening = threading.Lock()
        self._opened = False

    @abstractmethod
    def open(self) -> None:
        """Read the weights; blocks, called in a thread."""

    @abstractmethod
    def diarize(
        self, file: MediaFile, options: TranscribeOptions, stop: threading.Event
    ) -> Diarization:
        """Read a whole file and tell its voices apart; blocking, ends early once `stop` is set."""

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """See the class. Raises `BadInput` where the file or a known speaker's can't be read."""
        del context
        finding: asyncio.Future[Diarization] | None = None
        stop = threading.Event()
        answered = False
        try:
            async for frame in frames:
                if isinstance(frame, MediaFile):
                    options = options_of(frame)
                    if options.diarize:
                        finding = self._start(frame, options, stop)
                elif isinstance(frame, Data) and kind_of(frame) == "known_chunk":
                    continue
                elif isinstance(frame, Data) and kind_of(frame) == "transcript":
                    answered = True
                    yield frame if finding is None else with_speakers(frame.value, await finding)
                else:
                    yield frame
            if finding is not None and not answered:
                yield Data({"kind": "turns", "turns": (await finding).json()})
        finally:
            stop.set()
            if finding is not None:
                finding.cancel()

    def _start(
        self, file: MediaFile, options: TranscribeOptions, stop: threading.Event
    ) -> asyncio.Future[Diarization]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, self._listen, file, options, stop)

    def _listen(
        self, file: MediaFile, options: TranscribeOptions, stop: threading.Event
    ) -> Diarization:
        """`diarize`, with the weights read before the first file."""
        with self._opening:
            if not self._opened:
                self.open()
                self._opened = True
        return self.diarize(file, options, stop)

    async def close(self) -> None:
        """Wait for the file at work; it stops at its next block."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


def with_speakers(transcript: Mapping[str, Any], found: Diarization) -> Data:
    """A transcript with speakers on its words and segments, and its turns."""
    before = [segment_from(shape) for shape in transcript["segments"]]
    segments = label(before, found.turns, found.named)
    shapes = [segment_json(segment) for segment in segments]
    speakers = list(dict.fromkeys(found.named[turn.speaker] for turn in found.turns))
    return Data(
        {**transcript, "segments": shapes, "speakers": speakers, "turns": found.json()}
        | {"text": full_text(segments)}
    )
