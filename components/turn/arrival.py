"""How audio arrives: steadily, or in bursts; what tells a late burst from a muted microphone."""

from __future__ import annotations

from ..frames import Audio

_FASTER = 4.0
_FADES = 0.99
_LONGEST_S = 2.0
_MARGIN = 1.5


class Arrival:
    """Remembers when the last audio came, and how long one usually waits for more."""

    def __init__(self) -> None:
        self.last_s = 0.0
        self._burst_s = 0.0
        self._wait_s = 0.0

    def heard(self, window: Audio, now_s: float) -> None:
        """A window came. One that comes far sooner than it lasts belongs to the burst before it."""
        gap_s = now_s - self.last_s if self.last_s else 0.0
        length_s = window.duration_ms / 1000
        self._burst_s = length_s + (self._burst_s if gap_s * _FASTER < length_s else 0.0)
        usual_s = max(gap_s, self._burst_s, self._wait_s * _FADES)
        self._wait_s = min(usual_s, _LONGEST_S)
        self.last_s = now_s

    def grace_ms(self, least_ms: float) -> float:
        """How late audio may be, before it counts as missing."""
        return max(least_ms, self._wait_s * 1000 * _MARGIN)
