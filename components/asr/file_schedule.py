"""In which order a file's chunks are decoded, and in which their results leave."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .file_chunks import Chunk

Result = TypeVar("Result")


@dataclass(slots=True)
class Schedule(Generic[Result]):
    """Chunks wait here until they are batched; results wait until all before them are there.

    A batch is the chunk that has waited longest and those closest to it in length, so that little
    is padded and the first results come first. Its memory goes with its mel frames, each chunk's as
    many as the longest's. Pure; the caller keeps it from two tasks at once.
    """

    _waiting: list[tuple[int, Chunk]] = field(default_factory=list[tuple[int, Chunk]])
    _done: list[tuple[int, Chunk, Result]] = field(default_factory=list[tuple[int, Chunk, Result]])
    _added: int = 0
    _left: int = 0

    @property
    def waiting(self) -> int:
        """Chunks that aren't taken yet."""
        return len(self._waiting)

    @property
    def outstanding(self) -> int:
        """Chunks whose results haven't left."""
        return self._added - self._left

    def add(self, chunk: Chunk) -> None:
        """A chunk to decode, behind all others."""
        self._waiting.append((self._added, chunk))
        self._added += 1

    def add_done(self, chunk: Chunk, result: Result) -> None:
        """A chunk whose result is known already."""
        heapq.heappush(self._done, (self._added, chunk, result))
        self._added += 1

    def take(self, size: int, frames: int) -> list[tuple[int, Chunk]]:
        """The next batch, of up to `size` chunks and `frames`; one chunk at least if any waits."""
        if not self._waiting:
            return []
        length = len(self._waiting[0][1].pcm)
        ranked = sorted(
            range(len(self._waiting)),
            key=lambda place: (abs(len(self._waiting[place][1].pcm) - length), place),
        )
        places: list[int] = []
        longest = 0
        for place in ranked[:size]:
            longest = max(longest, self._waiting[place][1].frames)
            if places and longest * (len(places) + 1) > frames:
                break
            places.append(place)
        places.sort()
        batch = [self._waiting[place] for place in places]
        for place in reversed(places):
            del self._waiting[place]
        return batch

    def finish(self, number: int, chunk: Chunk, result: Result) -> None:
        """The result of a chunk that `take` gave."""
        heapq.heappush(self._done, (number, chunk, result))

    def leave(self) -> list[tuple[Chunk, Result]]:
        """The results that are next in order."""
        leaving: list[tuple[Chunk, Result]] = []
        while self._done and self._done[0][0] == self._left:
            _, chunk, result = heapq.heappop(self._done)
            leaving.append((chunk, result))
            self._left += 1
        return leaving
