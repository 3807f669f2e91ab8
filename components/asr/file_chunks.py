"""Cutting a recording into chunks at pauses, while it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..frames import Samples
from ..mel import FRAMES_PER_S, RATE_HZ
from ..speech import WINDOW, SileroModel, Span, SpanFinder, SpanRules, SpeechStream
from .requests import WINDOW_FRAMES

_FEWEST_FRAMES = 1000
_TAIL_S = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A piece of one track to transcribe: real samples, silences kept, so its times are linear.

    `start` counts samples of the file; `speech_s` is how much of it the VAD calls speech and
    `spans` where, in samples of the chunk.
    """

    track: int
    start: int
    pcm: Samples
    speech_s: float
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def start_s(self) -> float:
        """Where it starts in the file."""
        return self.start / RATE_HZ

    @property
    def duration_s(self) -> float:
        """Its length."""
        return len(self.pcm) / RATE_HZ

    @property
    def frames(self) -> int:
        """Mel frames that the encoder sees: the chunk and a tail of silence, in whole seconds."""
        wanted = math.ceil(self.duration_s + _TAIL_S) * FRAMES_PER_S
        return min(WINDOW_FRAMES, max(wanted, _FEWEST_FRAMES))

    @property
    def spans_s(self) -> list[tuple[float, float]]:
        """Its spans of speech in seconds of the chunk."""
        return [(start / RATE_HZ, end / RATE_HZ) for start, end in self.spans]

    @property
    def key(self) -> str:
        """Names the chunk in a store: the same file, cut by the same rules, gives the same keys."""
        return f"{self.track}:{self.start}:{len(self.pcm)}"


@dataclass(frozen=True, slots=True)
class CutRules:
    """Speech is packed into chunks of at most `longest_s`; a pause above `gap_s` always splits.

    `pad_s` of the surrounding sound is kept on both sides, never more than half of a pause.
    `threshold` and `pause_s` are the VAD's: what counts as speech, and the shortest pause.
    """

    longest_s: float = 15.0
    gap_s: float = 1.0
    pad_s: float = 0.2
    threshold: float = 0.5
    pause_s: float = 0.16

    @property
    def longest(self) -> int:
        """The longest chunk in windows."""
        return int(self.longest_s * RATE_HZ / WINDOW)

    @property
    def gap(self) -> int:
        """The longest pause inside a chunk, in windows."""
        return int(self.gap_s * RATE_HZ / WINDOW)

    @property
    def pad(self) -> int:
        """The padding in windows."""
        return round(self.pad_s * RATE_HZ / WINDOW)

    @property
    def spans(self) -> SpanRules:
        """How the VAD's probabilities become spans of speech."""
        pause = max(1, round(self.pause_s * RATE_HZ / WINDOW))
        leave = max(0.02, self.threshold - 0.15)
        return SpanRules(enter=self.threshold, leave=leave, shortest_pause=pause)


class Cutter:
    """Cuts one track: push its samples in order, take chunks as soon as their end is certain."""

    def __init__(self, model: SileroModel, rules: CutRules | None = None, track: int = 0) -> None:
        self._rules = rules or CutRules()
        self._track = track
        self._speech = SpeechStream(model)
        self._finder = SpanFinder(self._rules.spans)
        self._pcm = np.zeros(0, np.int16)
        self._base = 0
        self._seen = 0
        self._floor = 0
        self._packed: list[Span] = []

    def push(self, pcm: Samples, *, last: bool = False) -> list[Chunk]:
        """Chunks that are complete once `pcm` is known; `last` ends the track."""
        self._pcm = np.concatenate([self._pcm, pcm])
        probabilities = self._speech.push(pcm, last=last)
        chunks: list[Chunk] = []
        for probability in probabilities.tolist():
            for span in self._finder.push((probability,)):
                chunks += self._add(span)
            self._seen += 1
            chunks += self._limit()
        if last:
            for span in self._finder.finish():
                chunks += self._add(span)
            chunks += self._emit(None)
        self._forget()
        return chunks

    def _limit(self) -> Iterator[Chunk]:
        """End what can't grow: too long a speech without a pause, or a silence that splits."""
        since = self._finder.open_since
        if since is not None and self._seen - since >= self._rules.longest:
            cut = self._quietest(since + self._rules.longest // 2, self._seen)
            self._finder.split(cut)
            yield from self._add(Span(since, cut))
            yield from self._emit(cut)
        elif since is None and self._packed:
            silence = self._seen - self._packed[-1].end
            if silence > self._rules.gap + 2 * self._rules.pad:
                yield from self._emit(None)

    def _quietest(self, low: int, high: int) -> int:
        """The window from `low` to `high` around which there is the least sound."""
        start = low * WINDOW - self._base
        stop = high * WINDOW - self._base
        samples = self._pcm[start:stop].astype(np.float32)
        # The last window of a track may not be whole.
        samples = np.pad(samples, (0, stop - start - len(samples))).reshape(high - low, -1)
        around = np.pad((samples**2).mean(axis=1), 1, mode="edge")
        energy = np.convolve(around, np.ones(3) / 3, mode="valid")
        return low + 2 + int(energy[2:].argmin())

    def _add(self, span: Span) -> Iterator[Chunk]:
        if self._packed:
            too_long = span.end - self._packed[0].start > self._rules.longest
            if too_long or span.start - self._packed[-1].end > self._rules.gap:
                yield from self._emit(span.start)
        self._packed.append(span)

    def _emit(self, following: int | None) -> Iterator[Chunk]:
        """Make the packed spans a chunk; `following` is where speech goes on, None if not yet."""
        if not self._packed:
            return
        spans, self._packed = self._packed, []
        pad = self._rules.pad
        first = max(self._floor, spans[0].start - pad, 0)
        end = spans[-1].end + pad
        if following is not None:
            end = min(end, (spans[-1].end + following + 1) // 2)
        self._floor = end
        start = first * WINDOW
        pcm = self._pcm[start - self._base : end * WINDOW - self._base]
        if len(pcm):
            inside = tuple(((s.start - first) * WINDOW, (s.end - first) * WINDOW) for s in spans)
            speech_s = sum(s.end - s.start for s in spans) * WINDOW / RATE_HZ
            yield Chunk(self._track, start, pcm.copy(), speech_s, inside)

    def _forget(self) -> None:
        """Drop the samples that no chunk can need any more."""
        since = self._finder.open_since
        first = self._packed[0].start if self._packed else since
        keep = (self._seen if first is None else first) - self._rules.pad - 1
        drop = max(0, keep * WINDOW - self._base)
        if drop:
            self._pcm = self._pcm[drop:].copy()
            self._base += drop
