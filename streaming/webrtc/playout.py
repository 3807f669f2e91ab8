"""What a caller hears: replies in order, given out piece by piece at the pace of life."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ...components.frames import Samples
from ...pipelines.playback import Playback

RATE_HZ = 24_000
PIECE = RATE_HZ // 50
"""Samples of one piece, 20 ms."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a response's audio does: it starts to play, has been played, or was cut off. `heard`:
    of each item cut short, the milliseconds of it that were played."""

    kind: Literal["started", "stopped", "cleared"]
    response_id: str
    heard: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class _Part:
    response_id: str
    item_id: str
    pcm: Samples


class Playout(Playback):
    """Pure state. `add` puts audio in, `pull` takes out what is to be played now.

    Unlike its base it needs no reckoning: what was pulled has been heard, the rest hasn't. That
    counts the milliseconds of the way to the caller's ear as heard.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: deque[_Part] = deque()
        self._queued = 0
        self._now_s = 0.0
        self._played: dict[str, int] = {}
        self._open: dict[str, bool] = {}
        self._playing: set[str] = set()
        self._dropped: set[str] = set()
        self._changes: list[Change] = []

    @property
    def queued_s(self) -> float:
        """How long what waits will play."""
        return self._queued / RATE_HZ

    @property
    def end_s(self) -> float:
        """When all that waits will have been played."""
        return self._now_s + self.queued_s

    def sent(self, item_id: str, duration_ms: float, now_s: float) -> None:
        """Nothing: what counts is `add` and `pull`."""

    def add(self, response_id: str, item_id: str, pcm: Samples) -> None:
        """Another piece of a response's audio, at 24 kHz; nothing once the response was cut off."""
        if response_id in self._dropped or not len(pcm):
            return
        self._open.setdefault(response_id, True)
        self._parts.append(_Part(response_id, item_id, pcm))
        self._queued += len(pcm)

    def finish(self, response_id: str) -> None:
        """Nothing more comes of a response."""
        self._dropped.discard(response_id)
        if response_id in self._open:
            self._open[response_id] = False

    def pull(self, now_s: float) -> Samples | None:
        """The next 20 ms, None for silence: nothing waits, or less than a piece while more is to
        come."""
        self._now_s = now_s
        growing = any(self._open.get(part.response_id, False) for part in self._parts)
        if not self._queued or (self._queued < PIECE and growing):
            self._stop_played()
            return None
        piece = np.zeros(PIECE, np.int16)
        at = 0
        while at < PIECE and self._parts:
            at += self._take(piece[at:])
        self._stop_played()
        return piece

    def stop(self, now_s: float) -> dict[str, float]:
        """Fall silent: of each item not played out, how much was heard, in ms."""
        heard = {
            part.item_id: self._played.get(part.item_id, 0) * 1000 / RATE_HZ for part in self._parts
        }
        for response_id in self._open:
            mine = {part.item_id for part in self._parts if part.response_id == response_id}
            cut = {item: ms for item, ms in heard.items() if item in mine}
            self._changes.append(Change("cleared", response_id, cut))
        self._dropped |= {response_id for response_id, growing in self._open.items() if growing}
        self._open.clear()
        self._parts.clear()
        self._playing.clear()
        self._played.clear()
        self._queued = 0
        return heard

    def changes(self) -> list[Change]:
        """What has happened since the last time, in order."""
        changes, self._changes = self._changes, []
        return changes

    def _take(self, room: Samples) -> int:
        """Move what fits from the first part into `room`; how much that was."""
        part = self._parts[0]
        if part.response_id not in self._playing:
            self._playing.add(part.response_id)
            self._changes.append(Change("started", part.response_id))
        size = min(len(room), len(part.pcm))
        room[:size] = part.pcm[:size]
        part.pcm = part.pcm[size:]
        if not len(part.pcm):
            self._parts.popleft()
        self._queued -= size
        self._played[part.item_id] = self._played.get(part.item_id, 0) + size
        return size

    def _stop_played(self) -> None:
        """Tell of responses whose audio is complete and out."""
        waiting = {part.response_id for part in self._parts}
        for response_id in [r for r, more in self._open.items() if not more and r not in waiting]:
            del self._open[response_id]
            self._playing.remove(response_id)
            self._changes.append(Change("stopped", response_id))
        if not self._open:
            self._played.clear()
