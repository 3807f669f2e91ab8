"""Giving words and segments their speakers, and speakers their names."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..frames import Segment, Word
from .turns import Turn, speaker_of

_SAME_VOICE = 0.7


def letter(index: int) -> str:
    """A, B, … Z, AA, AB …"""
    name = ""
    while True:
        index, rest = divmod(index, 26)
        name = chr(ord("A") + rest) + name
        if index == 0:
            return name
        index -= 1


def names(
    turns: Sequence[Turn],
    centroids: NDArray[np.float32],
    known: Mapping[str, NDArray[np.float32]],
    same_voice: float = _SAME_VOICE,
) -> dict[int, str]:
    """Names of the speakers: known voices that fit, the others by letters in order of appearance.

    Each known voice names one speaker at most, the closest pair first.
    """
    named: dict[int, str] = {}
    pairs = sorted(
        (
            (float(centroid @ voice), index, name)
            for index, centroid in enumerate(centroids)
            for name, voice in known.items()
        ),
        reverse=True,
    )
    for closeness, index, name in pairs:
        if closeness >= same_voice and index not in named and name not in named.values():
            named[index] = name
    letters = (name for name in map(letter, itertools.count()) if name not in known)
    for turn in turns:
        if turn.speaker not in named:
            named[turn.speaker] = next(letters)
    return named


def label(
    segments: Sequence[Segment], turns: Sequence[Turn], named: Mapping[int, str]
) -> list[Segment]:
    """Segments with speakers, cut where the speaker changes; every word keeps its place."""
    labelled: list[Segment] = []
    near = 0
    for segment in segments:
        words: list[Word] = []
        for word in segment.words or (Word(segment.text, segment.start_s, segment.end_s),):
            speaker, near = speaker_of(word, turns, near)
            words.append(replace(word, speaker=None if speaker is None else named.get(speaker)))
        labelled += _cut(segment, words)
    return [replace(segment, index=index) for index, segment in enumerate(labelled)]


def _cut(segment: Segment, words: Sequence[Word]) -> list[Segment]:
    groups = [list(group) for _, group in itertools.groupby(words, key=lambda word: word.speaker)]
    if len(groups) == 1:
        kept = tuple(words) if segment.words else ()
        return [replace(segment, speaker=words[0].speaker, words=kept)]
    return [
        replace(
            segment,
            text="".join(word.text for word in group).strip(),
            start_s=group[0].start_s,
            end_s=group[-1].end_s,
            speaker=group[0].speaker,
            words=tuple(group),
            tokens=segment.tokens if index == 0 else (),
        )
        for index, group in enumerate(groups)
    ]
