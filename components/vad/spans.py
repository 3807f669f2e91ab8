"""Where speech is in a whole signal: pure work on the probabilities that the VAD gave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..audio import Floats
from .model import WINDOW_MS


@dataclass(frozen=True, slots=True)
class Span:
    """Speech from `start_ms` to `end_ms`."""

    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class SpanRules:
    """How probabilities become spans.

    Speech begins at `threshold` and lasts until it stays `release` below that for
    `min_silence_ms`. Spans under `min_speech_ms` are dropped, those over `max_speech_ms` cut at
    their quietest window in the second half. `pad_ms` is added at both ends, to the middle of a
    gap at most.
    """

    threshold: float = 0.5
    release: float = 0.15
    min_speech_ms: float = 64.0
    min_silence_ms: float = 160.0
    max_speech_ms: float = float("inf")
    pad_ms: float = 100.0


def segments(
    probabilities: Floats, rules: SpanRules | None = None, *, duration_ms: float | None = None
) -> list[Span]:
    """Spans of speech, in order, disjoint, within 0..`duration_ms` (all windows by default)."""
    rules = rules or SpanRules()
    end_ms = len(probabilities) * WINDOW_MS if duration_ms is None else duration_ms
    spans = [
        Span(first * WINDOW_MS, min(last * WINDOW_MS, end_ms))
        for start, stop in _runs(probabilities, rules)
        if (stop - start) * WINDOW_MS >= rules.min_speech_ms
        for first, last in _cut(probabilities, start, stop, rules.max_speech_ms)
    ]
    return _padded(spans, rules.pad_ms, end_ms)


def _runs(probabilities: Floats, rules: SpanRules) -> Iterator[tuple[int, int]]:
    """Runs of speech as (first, past the last) window."""
    release = max(rules.threshold - rules.release, 0.01)
    start = quiet = -1
    for n, speech in enumerate(probabilities.tolist()):
        if speech >= rules.threshold:
            start, quiet = (n if start < 0 else start), -1
        elif start >= 0 and (speech < release or quiet >= 0):
            quiet = n if quiet < 0 else quiet
            if (n + 1 - quiet) * WINDOW_MS >= rules.min_silence_ms:
                yield start, quiet
                start = quiet = -1
    if start >= 0:
        yield start, quiet if quiet >= 0 else len(probabilities)


def _cut(
    probabilities: Floats, start: int, stop: int, max_speech_ms: float
) -> Iterator[tuple[int, int]]:
    limit = max(2, int(min(max_speech_ms / WINDOW_MS, len(probabilities) + 2)))
    while stop - start > limit:
        half = start + limit // 2
        cut = half + int(probabilities[half : start + limit].argmin())
        cut = max(cut, start + 1)
        yield start, cut
        start = cut
    yield start, stop


def _padded(spans: list[Span], pad_ms: float, end_ms: float) -> list[Span]:
    """Widen each span, to the middle of a gap at most."""
    padded: list[Span] = []
    for n, span in enumerate(spans):
        left = (spans[n - 1].end_ms + span.start_ms) / 2 if n else 0.0
        right = (span.end_ms + spans[n + 1].start_ms) / 2 if n + 1 < len(spans) else end_ms
        padded.append(
            replace(
                span,
                start_ms=max(left, span.start_ms - pad_ms),
                end_ms=min(right, span.end_ms + pad_ms),
            )
        )
    return padded
