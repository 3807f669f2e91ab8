"""Who spoke when, offline: VAD windows, voice embeddings, spectral clustering."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..base import Component, Context, Options, Setup
from ..errors import BadInput, MissingRequirement
from ..frames import Data, Frame, MediaFile, Progress, Samples, Segment
from ..media_read import MediaReader
from ..models import lacking
from ..speech import SileroModel, Span, SpanFinder, SpanRules, SpeechStream, speech_model
from ..transcription import (
    TranscribeOptions,
    full_text,
    kind_of,
    options_of,
    segment_from,
    segment_json,
)
from .label import label, names
from .spectral import SpeakerCount, cluster
from .turns import RATE_HZ, Turn, WindowRules, bounds, timeline
from .voice import VoiceEncoder, unit, weights_path

_BLOCK_S = 10.0
_LONGEST_WINDOWS = 940


class ClusterOptions(Options):
    """How the pipeline file tunes diarization.

    Windows of `window_s` each `hop_s` are compared; voices closer than `merge_above` (cosine) are
    one speaker; `bridge_s` is the longest pause that stays inside a turn.
    """

    window_s: float = 1.0
    hop_s: float = 0.2
    bridge_s: float = 0.6
    merge_above: float = 0.9
    vad: str = "silero-vad"


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


class ClusterDiarizer(Component):
    """Adds speakers to the transcript of the same file, or gives the turns alone.

    A `MediaFile` starts it; segments and progress of a transcriber pass on as they come, and its
    transcript leaves with speakers on words and segments. Files that don't ask pass untouched.
    """

    accepts: ClassVar[tuple[type[Frame], ...]] = (MediaFile, Segment, Progress, Data)
    emits: ClassVar[tuple[type[Frame], ...]] = (Segment, Progress, Data)
    options = ClusterOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = ClusterOptions.model_validate(dict(setup.options))
        self._rules = WindowRules(
            self._options.window_s, self._options.hop_s, self._options.bridge_s
        )
        self._pool = ThreadPoolExecutor(
            setup.resources.threads, thread_name_prefix=f"{setup.node} voices"
        )
        self._encoder: VoiceEncoder | None = None
        self._vad: SileroModel | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        """The weights that aren't installed."""
        missing = lacking("silero-vad")
        try:
            weights_path()
        except MissingRequirement as error:
            missing.append(error.message)
        return missing

    async def load(self) -> None:
        """Read both networks; they take 20 MB."""

        def read() -> None:
            torch.set_num_threads(self.setup.resources.threads)
            self._encoder = VoiceEncoder()
            self._vad = speech_model(self._options.vad)

        await asyncio.get_running_loop().run_in_executor(self._pool, read)

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
        return loop.run_in_executor(self._pool, self.diarize, file, options, stop)

    def diarize(
        self, file: MediaFile, options: TranscribeOptions, stop: threading.Event
    ) -> Diarization:
        """Read a whole file and tell its voices apart; blocking, ends early once `stop` is set."""
        if self._encoder is None or self._vad is None:
            raise RuntimeError(f"{self.setup.node} is not loaded")
        known = {name: self._reference(name, path) for name, path in options.known_speakers.items()}
        work = _Windows(self._encoder, self._vad, self._rules)
        for block in MediaReader(file.path, name=file.name, block_s=_BLOCK_S):
            if stop.is_set():
                return Diarization([], {})
            work.push(block[0])
        work.push(np.zeros(0, np.int16), last=True)
        if not work.windows:
            return Diarization([], {})
        vectors = np.concatenate(work.vectors)
        count = SpeakerCount(options.min_speakers, options.max_speakers)
        centroids = cluster(vectors, count, self._options.merge_above)
        turns = timeline(work.windows, vectors @ centroids.T, work.spans, self._rules)
        return Diarization(turns, names(turns, centroids, known))

    def _reference(self, name: str, path: str) -> NDArray[np.float32]:
        """The voice of a known speaker."""
        assert self._encoder is not None
        reader = MediaReader(path, name=f"known speaker {name!r}")
        pcm = np.concatenate([block[0] for block in reader])
        seconds = len(pcm) / RATE_HZ
        if not 1.0 <= seconds <= 30.0:
            raise BadInput(
                f"the recording of known speaker {name!r} is {seconds:.1f} s long; 2 to 10 s do",
                param="known_speaker_references",
            )
        return self._encoder.voice(pcm)

    async def close(self) -> None:
        """Wait for the file at work; it stops at its next block."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)


class _Windows:
    """Spans, windows and their voices, of a recording as it is read."""

    def __init__(self, encoder: VoiceEncoder, vad: SileroModel, rules: WindowRules) -> None:
        self.windows: list[tuple[int, int]] = []
        self.vectors: list[NDArray[np.float32]] = []
        self.spans: list[Span] = []
        self._encoder = encoder
        self._rules = rules
        self._speech = SpeechStream(vad)
        self._finder = SpanFinder(SpanRules(shortest_speech=6, longest=_LONGEST_WINDOWS))
        self._pcm = np.zeros(0, np.int16)
        self._base = 0

    def push(self, pcm: Samples, *, last: bool = False) -> None:
        """Take the next samples; embeds the speech that ended with them."""
        self._pcm = np.concatenate([self._pcm, pcm])
        probabilities = self._speech.push(pcm, last=last).tolist()
        spans = list(self._finder.push(probabilities))
        if last:
            spans += self._finder.finish()
        for span in spans:
            self._embed(span)
        since = self._finder.open_since
        keep = (self._finder.place if since is None else since) * 512 - RATE_HZ
        if keep > self._base:
            self._pcm = self._pcm[keep - self._base :].copy()
            self._base = keep

    def _embed(self, span: Span) -> None:
        found = bounds(span, self._rules, self._base + len(self._pcm))
        pieces = [self._pcm[low - self._base : high - self._base] for low, high in found]
        self.vectors.append(unit(self._encoder.embed(pieces)))
        self.windows += found
        self.spans.append(span)


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
