"""Partial transcripts that never take back a word: what two decodes in a row agree on."""

from __future__ import annotations

import re

from .checks import normalized

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")
_CLOSING = ".,!?;:…\u3002\u3001\uff01\uff1f"


class StablePrefix:
    """Grows by the words that the last two hypotheses share at their start (local agreement).

    Words are compared without case and punctuation; scripts without spaces go by character.
    """

    def __init__(self) -> None:
        self.text = ""
        self._shown: list[str] = []
        self._last: list[str] = []

    def push(self, hypothesis: str) -> str | None:
        """The longer text if it grew, else None."""
        spans = [match.span() for match in _WORD.finditer(hypothesis)]
        words = [normalized(hypothesis[start:end]) for start, end in spans]
        agreed = _common(words, self._last)
        self._last = words
        shown = len(self._shown)
        if agreed <= shown or words[:shown] != self._shown:
            return None
        start = spans[shown - 1][1] if shown else spans[0][0]
        added = hypothesis[start : spans[agreed - 1][1]]
        if agreed == len(words):
            added = added.rstrip(_CLOSING)  # more may follow in the same sentence
        self._shown = words[:agreed]
        self.text += added.lstrip(_CLOSING) if shown else added
        return self.text


def _common(one: list[str], other: list[str]) -> int:
    """How many words both begin with."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
