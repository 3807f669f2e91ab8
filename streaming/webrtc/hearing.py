"""A caller's audio from a media track: mono, at the rate that speech models have, without gaps."""

from __future__ import annotations

import numpy as np

from ...components.audio import Resampler
from ...components.frames import Samples

RATE_HZ = 16_000
TRACK_HZ = 48_000
QUIET_S = 0.5
MAX_GAP_S = 2.0


class Hearing:
    """Pure state. Lost packets leave gaps in a track, and a caller may stop to send altogether:
    both become silence, since whoever waits for the end of a turn counts what comes.

    Positions are samples at 48 kHz, Opus' clock, on the sender's count.
    """

    def __init__(self) -> None:
        self._resampler = Resampler(TRACK_HZ, RATE_HZ)
        self._next: int | None = None
        self._heard_s = 0.0
        self._filled_s = 0.0

    def push(self, pcm: Samples, position: int, now_s: float) -> Samples:
        """The audio at 16 kHz after this much of the track, of shape (samples, 1 or 2 channels),
        and what was missing before it."""
        missing = 0 if self._next is None else position - self._next
        if missing < 0 or missing > MAX_GAP_S * TRACK_HZ:
            missing = 0
        # Cheaper than a mean of floats, fifty times a second.
        mono = ((pcm[:, 0].astype(np.int32) + pcm[:, -1]) >> 1).astype(np.int16)
        self._next = position + len(mono)
        self._heard_s = self._filled_s = now_s
        if missing:
            mono = np.concatenate([np.zeros(missing, np.int16), mono])
        return self._resampler.push(mono)

    def tick(self, now_s: float) -> Samples | None:
        """Silence in place of what should have come by now, at 16 kHz; None while nothing is
        overdue, or before the first audio."""
        if self._next is None or now_s - self._heard_s < QUIET_S:
            return None
        missing = int((now_s - self._filled_s) * TRACK_HZ)
        self._filled_s = now_s
        self._next += missing
        return self._resampler.push(np.zeros(missing, np.int16))
