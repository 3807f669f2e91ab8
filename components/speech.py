"""Where speech is in a recording of any length, found while it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .audio import Floats
from .frames import Samples
from .models import locate
from .silero import WINDOW, SileroModel, State

__all__ = [
    "WINDOW",
    "SileroModel",
    "Span",
    "SpanFinder",
    "SpanRules",
    "SpeechStream",
    "speech_model",
]


def speech_model(model: str = "silero-vad") -> SileroModel:
    """The VAD's weights, for any number of streams."""
    return SileroModel(locate(model))


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of speech in windows of 512 samples, `end` excluded; `score`: mean probability."""

    start: int
    end: int
    score: float = 1.0


class SpeechStream:
    """Speech probability per window of one recording; push int16 mono at 16 kHz in any pieces."""

    def __init__(self, model: SileroModel) -> None:
        self._model = model
        self._state = State.fresh()
        self._rest = np.zeros(0, np.int16)

    def push(self, pcm: Samples, *, last: bool = False) -> Floats:
        """Probabilities of the windows now complete; `last` pads the final one with silence."""
        pcm = np.concatenate([self._rest, pcm])
        whole = len(pcm) if last else len(pcm) // WINDOW * WINDOW
        self._rest = pcm[whole:]
        probabilities, self._state = self._model.scan(pcm[:whole], self._state)
        return probabilities


@dataclass(frozen=True, slots=True)
class SpanRules:
    """When speech starts and ends, in windows of 32 ms: hysteresis, shortest speech and pause.

    `longest` cuts speech without a pause, so that whoever works on spans keeps a bounded buffer.
    """

    enter: float = 0.5
    leave: float = 0.35
    shortest_speech: int = 3
    shortest_pause: int = 5
    longest: int | None = None


class SpanFinder:
    """Turns probabilities into spans of speech as they come; a span is given once it is over."""

    def __init__(self, rules: SpanRules | None = None) -> None:
        self.rules = rules or SpanRules()
        self._place = 0
        self._start: int | None = None
        self._last = 0
        self._sum = 0.0

    @property
    def place(self) -> int:
        """Windows seen."""
        return self._place

    @property
    def open_since(self) -> int | None:
        """First window of the speech that goes on, None in silence."""
        return self._start

    def push(self, probabilities: Iterable[float]) -> Iterator[Span]:
        """Spans that ended within these windows."""
        for probability in probabilities:
            if self._start is None:
                if probability >= self.rules.enter:
                    self._start, self._last, self._sum = self._place, self._place, 0.0
            elif probability >= self.rules.leave:
                self._last = self._place
            if self._start is not None:
                self._sum += probability
                paused = self._place - self._last >= self.rules.shortest_pause
                length = self._place - self._start
                if paused or (self.rules.longest is not None and length >= self.rules.longest):
                    yield from self._end()
            self._place += 1

    def finish(self) -> Iterator[Span]:
        """The span that the end of the recording cuts off, if there is one."""
        yield from self._end()

    def split(self, window: int) -> None:
        """Let the open span start anew at `window`: what came before was taken already."""
        self._start = window
        self._last = max(self._last, window)

    def _end(self) -> Iterator[Span]:
        if self._start is not None:
            start, end, self._start = self._start, self._last + 1, None
            if end - start >= self.rules.shortest_speech:
                yield Span(start, end, min(1.0, self._sum / max(1, end - start)))
