"""From a chunk's words to segments of the file: sentences with times that never go backwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..frames import Word

_ENDS = (".", "!", "?", "。", "！", "？", "…", "؟", "।")  # noqa: RUF001
_CLAUSES = (",", ";", ":", "–", "—", "、", "，", "،")  # noqa: RUF001
_QUOTES = "\"'”’)]»」』"  # noqa: RUF001
_SPLIT_PAUSE_S = 0.8
_LONGEST_S = 15.0
_LONG_S = 6.0
_FEWEST_WORDS = 2


def place_words(
    words: Iterable[Word], start_s: float, end_s: float, not_before_s: float = 0.0
) -> list[Word]:
    """Move a chunk's words to the file's clock, inside the chunk, each not before the last one."""
    placed: list[Word] = []
    floor_s = max(start_s, not_before_s)
    for word in words:
        first_s = min(max(word.start_s + start_s, floor_s), end_s)
        last_s = min(max(word.end_s + start_s, first_s), end_s)
        placed.append(replace(word, start_s=round(first_s, 3), end_s=round(last_s, 3)))
        floor_s = max(floor_s, last_s)
    return placed


def sentences(words: Sequence[Word], longest_s: float = _LONGEST_S) -> list[list[Word]]:
    """Group words into segments: a sentence, the clauses of a long one, what a pause parts."""
    groups: list[list[Word]] = []
    current: list[Word] = []
    for word in words:
        if current and _breaks(current, word, longest_s):
            groups.append(current)
            current = []
        current.append(word)
    if current:
        groups.append(current)
    return groups


def _breaks(current: list[Word], word: Word, longest_s: float) -> bool:
    last = current[-1]
    if word.start_s - last.end_s > _SPLIT_PAUSE_S:
        return True
    if not word.text.startswith((" ", "\n")) and word.text[:1].isascii():
        return False
    if word.end_s - current[0].start_s > longest_s:
        return True
    said = last.text.rstrip().rstrip(_QUOTES)
    if said.endswith(_CLAUSES) and last.end_s - current[0].start_s > _LONG_S:
        return True
    return said.endswith(_ENDS) and len(current) >= _FEWEST_WORDS


def join(words: Iterable[Word]) -> str:
    """The text of words, which carry their own leading spaces as Whisper writes them."""
    return "".join(word.text for word in words).strip()


def cues(words: Sequence[Word], width: int = 42, lines: int = 2) -> list[list[Word]]:
    """Groups of words short enough for a subtitle of `lines` lines of `width` characters."""
    groups: list[list[Word]] = []
    for sentence in sentences(words):
        current: list[Word] = []
        for word in sentence:
            if current and len(join([*current, word])) > width * lines:
                groups.append(current)
                current = []
            current.append(word)
        groups.append(current)
    return groups
