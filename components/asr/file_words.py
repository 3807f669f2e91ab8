"""When each word of a chunk was said: Whisper's attention, aligned and held to where speech is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..frames import Word
from .tokens import Tokens

_POSITIONS_PER_S = 50
_UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
_BEFORE = "\"'“¿([{-‘«「『"  # noqa: RUF001
_AFTER = "\"'.。,，!！?？:：”)]}、’»」』…;"  # noqa: RUF001
_SLACK_S = 0.1


def words_of(
    tokens: Tokens, ids: Sequence[int], aligned: Any, language: str, duration_s: float
) -> list[Word]:
    """Words with times from CTranslate2's alignment of `ids` (without special tokens)."""
    groups = split_words(tokens, ids, language)
    if not groups:
        return []
    starts_s = _token_starts(aligned.alignments, len(ids), duration_s)
    probabilities = cast("list[float]", list(aligned.text_token_probs))
    words: list[Word] = []
    place = 0
    for text, count in groups:
        likely = probabilities[place : place + count] or [1.0]
        end_s = starts_s[place + count]
        words.append(Word(text, starts_s[place], end_s, float(np.mean(likely))))
        place += count
    return words


def _token_starts(pairs: Any, count: int, duration_s: float) -> list[float]:
    """When each token starts, and when the last one ends: `count` + 1 times in seconds."""
    starts = [-1.0] * (count + 1)
    for token, position in cast("list[tuple[int, int]]", list(pairs)):
        if token <= count and starts[token] < 0:
            starts[token] = position / _POSITIONS_PER_S
    last_s = duration_s if starts[count] < 0 else starts[count]
    starts[count] = min(last_s, duration_s)
    for place in range(count - 1, -1, -1):
        if starts[place] < 0:
            starts[place] = starts[place + 1]
    return starts


def split_words(tokens: Tokens, ids: Sequence[int], language: str) -> list[tuple[str, int]]:
    """Text and number of tokens of each word; the texts join to the text of all tokens."""
    pieces = _characters(tokens, ids)
    words: list[tuple[str, int]] = []
    for text, count in pieces:
        starts = text.startswith(" ") or language in _UNSPACED
        if words and not (starts and not _is_mark(text)):
            words[-1] = (words[-1][0] + text, words[-1][1] + count)
        else:
            words.append((text, count))
    return _join_openers(words)


def _characters(tokens: Tokens, ids: Sequence[int]) -> list[tuple[str, int]]:
    """Tokens in the smallest groups that decode to whole characters."""
    pieces: list[tuple[str, int]] = []
    pending: list[int] = []
    for token in ids:
        pending.append(token)
        text = tokens.decode(pending)
        if "\ufffd" not in text:
            pieces.append((text, len(pending)))
            pending = []
    if pending:
        pieces.append((tokens.decode(pending), len(pending)))
    return pieces


def _is_mark(text: str) -> bool:
    stripped = text.strip()
    return bool(stripped) and not text.startswith(" ") and all(char in _AFTER for char in stripped)


def _join_openers(words: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Let an opening quote or bracket that stands alone begin the word behind it."""
    joined: list[tuple[str, int]] = []
    opener: tuple[str, int] | None = None
    for text, count in words:
        if opener is not None:
            text, count = opener[0] + text, opener[1] + count
            opener = None
        if text.strip() and all(char in _BEFORE for char in text.strip()):
            opener = (text, count)
        else:
            joined.append((text, count))
    return joined if opener is None else [*joined, opener]


def hold_to_speech(words: Sequence[Word], spans: Sequence[tuple[float, float]]) -> list[Word]:
    """Words moved out of the pauses that alignment smears them over; `spans` in seconds, sorted.

    A word that begins in a pause begins with the speech behind it, one that ends in a pause ends
    with the speech before; one that lies wholly in a pause stays.
    """
    held: list[Word] = []
    for word in words:
        touched = [
            (low - _SLACK_S, high + _SLACK_S)
            for low, high in spans
            if low - _SLACK_S < word.end_s and high + _SLACK_S > word.start_s
        ]
        if touched:
            low, high = _most_covered(word, touched)
            word = replace(word, start_s=max(word.start_s, low), end_s=min(word.end_s, high))
        held.append(word)
    return held


def _most_covered(word: Word, spans: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Bounds that keep the word's times: the whole run of spans, unless one alone holds most."""
    shares = [min(high, word.end_s) - max(low, word.start_s) for low, high in spans]
    best = int(np.argmax(shares))
    if len(spans) > 1 and shares[best] > 0.8 * sum(shares):
        return spans[best]
    return spans[0][0], spans[-1][1]
