"""The audio of an utterance that isn't decoded for good: up to one window of Whisper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..audio import Floats, signal_at
from ..frames import Audio
from ..mel import RATE_HZ

VOICED = 0.35
_LEAD_MS = 300.0
_TRAIL_MS = 200.0
_QUIET_RMS = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """What is worth decoding: `samples` of shape (samples,) at 16 kHz, `voiced_s` of it voice."""

    samples: Floats
    voiced_s: float


class Window:
    """Audio as it comes, each piece with the speech probability that a VAD gave it (if any did)."""

    def __init__(self, pieces: Sequence[Audio] = ()) -> None:
        self._pieces = list(pieces)
        self._speech = [_speech(piece) for piece in pieces]
        self.duration_ms = sum(piece.duration_ms for piece in pieces)
        self.voiced_ms = sum(
            piece.duration_ms
            for piece, speech in zip(pieces, self._speech, strict=True)
            if speech >= VOICED
        )

    def add(self, piece: Audio) -> float:
        """Take the next piece; its speech probability."""
        speech = _speech(piece)
        self._pieces.append(piece)
        self._speech.append(speech)
        self.duration_ms += piece.duration_ms
        self.voiced_ms += piece.duration_ms if speech >= VOICED else 0.0
        return speech

    def stretch(self) -> Stretch | None:
        """From a little before the first voice to a little behind the last; None without voice."""
        voiced = [n for n, speech in enumerate(self._speech) if speech >= VOICED]
        if not voiced:
            return None
        begin_ms = self._pieces[voiced[0]].start_ms - _LEAD_MS
        end_ms = self._pieces[voiced[-1]].end_ms + _TRAIL_MS
        kept = [p for p in self._pieces if p.end_ms > begin_ms and p.start_ms < end_ms]
        return Stretch(signal_at(kept, RATE_HZ), self.voiced_ms / 1000)

    @property
    def pieces(self) -> int:
        """How many pieces it holds."""
        return len(self._pieces)

    def cut(self) -> Window:
        """Split off the part before the best pause in its second half; the rest stays here."""
        return self.split(self._pause())

    def split(self, place: int) -> Window:
        """Split off the first `place` pieces."""
        first = Window(self._pieces[:place])
        rest = Window(self._pieces[place:])
        self._pieces, self._speech = rest._pieces, rest._speech
        self.duration_ms, self.voiced_ms = rest.duration_ms, rest.voiced_ms
        return first

    def _pause(self) -> int:
        """Where to cut: the middle of the longest silence, or else the least voiced piece."""
        half = len(self._pieces) // 2
        longest, middle, start = 0, 0, None
        for n in range(half, len(self._speech)):
            if self._speech[n] >= VOICED:
                start = None
                continue
            start = n if start is None else start
            if n + 1 - start > longest:
                longest, middle = n + 1 - start, (start + n + 1) // 2
        quietest = half + int(np.argmin(self._speech[half:])) if self._speech else 0
        return max(1, middle if longest else quietest)


def _speech(piece: Audio) -> float:
    """The VAD's word; without one, anything louder than a quiet room (-50 dB) counts as voice."""
    if piece.speech is not None:
        return piece.speech
    samples = piece.pcm.astype(np.float32)
    loud = len(samples) and float(np.sqrt(np.mean(samples * samples))) > _QUIET_RMS
    return 1.0 if loud else 0.0
