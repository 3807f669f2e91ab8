"""Who speaks when: from windows of speech and what they sound like to a timeline of turns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..frames import Word
from ..mel import RATE_HZ
from ..speech import WINDOW, Span

Floats = NDArray[np.float32]

_STEP_S = 0.02
_PAD = 960


@dataclass(frozen=True, slots=True)
class Turn:
    """`speaker` (an index) speaks from `start_s` to `end_s` of the file."""

    start_s: float
    end_s: float
    speaker: int


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Windows of `length_s` each `hop_s`; pauses up to `bridge_s` inside a turn belong to it."""

    length_s: float = 1.0
    hop_s: float = 0.2
    bridge_s: float = 0.6


def bounds(span: Span, rules: WindowRules, samples: int) -> list[tuple[int, int]]:
    """Sample bounds of the windows that cover a span of speech (a little of what is around it)."""
    first = max(0, span.start * WINDOW - _PAD)
    end = min(samples, span.end * WINDOW + _PAD)
    length, hop = int(rules.length_s * RATE_HZ), int(rules.hop_s * RATE_HZ)
    windows: list[tuple[int, int]] = []
    place = first
    while True:
        stop = min(place + length, end)
        windows.append((max(first, stop - length), stop))
        if stop >= end:
            return windows
        place += hop


def timeline(
    windows: Sequence[tuple[int, int]], scores: Floats, spans: Sequence[Span], rules: WindowRules
) -> list[Turn]:
    """Turns in order of time. `scores` (windows, speakers): how well each voice fits.

    Each moment of speech goes to the speaker with the best sum over the windows around it,
    windows weighing more the closer it is to their middle.
    """
    turns: list[Turn] = []
    if not windows or not scores.size:
        return turns
    owner = 0
    for span in spans:
        first = max(0, int((span.start * WINDOW - _PAD) / RATE_HZ / _STEP_S))
        last = int((span.end * WINDOW + _PAD) / RATE_HZ / _STEP_S) + 1
        total = np.zeros((last - first, scores.shape[1]), np.float32)
        while owner < len(windows) and windows[owner][1] <= first * _STEP_S * RATE_HZ:
            owner += 1
        index = owner
        while index < len(windows) and windows[index][0] < last * _STEP_S * RATE_HZ:
            _vote(total, first, windows[index], scores[index])
            index += 1
        _append(turns, first, total.argmax(axis=1))
    return _bridge(turns, rules.bridge_s)


def _vote(total: Floats, first: int, window: tuple[int, int], score: Floats) -> None:
    low = int(window[0] / RATE_HZ / _STEP_S)
    high = int(window[1] / RATE_HZ / _STEP_S) + 1
    places = np.arange(max(low, first), min(high, first + len(total)))
    weight = 1 - np.abs(places - (low + high) / 2) / max(1, high - low)
    total[places - first] += (weight[:, None] * score[None]).astype(np.float32)


def _append(turns: list[Turn], first: int, speakers: NDArray[np.int64]) -> None:
    edges = [0, *(np.flatnonzero(np.diff(speakers)) + 1).tolist(), len(speakers)]
    for low, high in itertools.pairwise(edges):
        start_s, end_s = (first + low) * _STEP_S, (first + high) * _STEP_S
        if high > low:
            turns.append(Turn(round(start_s, 3), round(end_s, 3), int(speakers[low])))


def _bridge(turns: list[Turn], bridge_s: float) -> list[Turn]:
    """Join turns of one speaker over pauses of up to `bridge_s`."""
    joined: list[Turn] = []
    for turn in turns:
        last = joined[-1] if joined else None
        if last and last.speaker == turn.speaker and turn.start_s - last.end_s <= bridge_s:
            joined[-1] = Turn(last.start_s, turn.end_s, turn.speaker)
        elif last and turn.start_s < last.end_s:
            if turn.end_s > last.end_s:
                joined.append(Turn(last.end_s, turn.end_s, turn.speaker))
        else:
            joined.append(turn)
    return joined


def speaker_of(word: Word, turns: Sequence[Turn], near: int = 0) -> tuple[int | None, int]:
    """The speaker with the largest share of a word, the nearest turn's where none covers it.

    Words come in order of time: `near`, returned for the next call, is the turn to look from.
    """
    while near + 1 < len(turns) and turns[near].end_s <= word.start_s - 1.0:
        near += 1
    shares: dict[int, float] = {}
    closest: tuple[float, int] | None = None
    for turn in turns[near:]:
        overlap_s = min(turn.end_s, word.end_s) - max(turn.start_s, word.start_s)
        if overlap_s > 0:
            shares[turn.speaker] = shares.get(turn.speaker, 0.0) + overlap_s
        elif closest is None or -overlap_s < closest[0]:
            closest = (-overlap_s, turn.speaker)
        if turn.start_s > word.end_s:
            break
    if shares:
        return max(shares, key=lambda speaker: shares[speaker]), near
    return (closest[1] if closest else None), near
