"""What a listener can have heard by now: a model of the player at the other end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Piece:
    item_id: str
    sent_ms: float


class Playback:
    """Audio is sent faster than it is played; the player starts at once and never skips.

    So what it says was heard is an upper bound. It counts from the time that each piece went out,
    pauses while there is nothing to play, and plays the items one after the other.
    """

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._end_s = 0.0

    @property
    def end_s(self) -> float:
        """When the last piece sent will have been played."""
        return self._end_s

    def sent(self, item_id: str, duration_ms: float, now_s: float) -> None:
        """Another piece of the item's audio has gone out."""
        if now_s >= self._end_s:
            self._pieces = [piece for piece in self._pieces if piece.item_id == item_id]
        self._end_s = max(self._end_s, now_s) + duration_ms / 1000
        if self._pieces and self._pieces[-1].item_id == item_id:
            self._pieces[-1].sent_ms += duration_ms
        else:
            self._pieces.append(_Piece(item_id, duration_ms))

    def stop(self, now_s: float) -> dict[str, float]:
        """The player falls silent: for each item not yet played out, how much was heard, in ms."""
        left_ms = max(0.0, self._end_s - now_s) * 1000
        heard: dict[str, float] = {}
        for piece in reversed(self._pieces):
            unplayed = min(piece.sent_ms, left_ms)
            left_ms -= unplayed
            if unplayed > 0:
                heard[piece.item_id] = piece.sent_ms - unplayed
        self._pieces.clear()
        self._end_s = min(self._end_s, now_s)
        return heard
