"""Which language a file is in: a vote of its chunks, so that no single stretch decides."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

_SURE = 0.8
_LONG_ENOUGH_S = 3.0


class LanguageVote:
    """The languages of one file's chunks; used from several threads.

    A chunk that is sure of its own language has it (files may change it midway); the others take
    what all chunks heard so far speak for, each weighing as much as its speech is long.

    A vote that begins with the `totals` of another hears a batch on its behalf.
    """

    def __init__(
        self,
        settled: str | None,
        allowed: Sequence[str] = (),
        totals: Mapping[str, float] | None = None,
    ) -> None:
        self.settled = settled
        self.allowed = frozenset(allowed)
        self._given = dict(totals or {})
        self._totals = dict(self._given)
        self._lock = threading.Lock()

    @property
    def language(self) -> str | None:
        """The language of the whole, None before anything was heard."""
        if self.settled is not None:
            return self.settled
        with self._lock:
            return max(self._totals, key=lambda code: self._totals[code], default=None)

    @property
    def shares(self) -> dict[str, float]:
        """How much speaks for each language, summing to 1, the likeliest first; at most five."""
        with self._lock:
            total = sum(self._totals.values())
            ranked = sorted(self._totals.items(), key=lambda pair: -pair[1])[:5]
        return {code: round(weight / total, 3) for code, weight in ranked if total}

    @property
    def totals(self) -> dict[str, float]:
        """What speaks for each language, in seconds of speech."""
        with self._lock:
            return dict(self._totals)

    @property
    def heard(self) -> dict[str, float]:
        """What of that was heard here."""
        given = self._given
        return {code: total - given.get(code, 0.0) for code, total in self.totals.items()}

    def count(self, heard: Mapping[str, float]) -> None:
        """Count in what another vote has heard."""
        with self._lock:
            for code, seconds in heard.items():
                self._totals[code] = self._totals.get(code, 0.0) + seconds

    def choose(self, heard: Sequence[Mapping[str, float]], speech_s: Sequence[float]) -> list[str]:
        """Count a batch's probabilities in, and say each chunk's language."""
        own = [self._among_allowed(one) for one in heard]
        with self._lock:
            for probabilities, weight in zip(own, speech_s, strict=True):
                for code, probability in probabilities.items():
                    self._totals[code] = self._totals.get(code, 0.0) + probability * weight
            common = max(self._totals, key=lambda code: self._totals[code])
        return [
            self._of_chunk(probabilities, length_s, common)
            for probabilities, length_s in zip(own, speech_s, strict=True)
        ]

    @staticmethod
    def _of_chunk(probabilities: Mapping[str, float], length_s: float, common: str) -> str:
        likeliest = max(probabilities, key=lambda code: probabilities[code])
        sure = probabilities[likeliest] >= _SURE and length_s >= _LONG_ENOUGH_S
        return likeliest if sure else common

    def _among_allowed(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        kept = {
            code: probability
            for code, probability in probabilities.items()
            if not self.allowed or code in self.allowed
        }
        total = sum(kept.values()) or 1.0
        return {code: probability / total for code, probability in kept.items()}
