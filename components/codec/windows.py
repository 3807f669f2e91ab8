"""Which frames of a codec stream are decoded together, and which of them are then exact.

A convolutional decoder sees `context` frames to each side. A window of 2·context + 1 frames gives
its middle frame exactly as a decode of the whole stream would; a stream's first window gives its
first frames too, since nothing precedes them, and its last window the last ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Frames `start` to `start + count` of the stream, of which `keep_from` to `keep_to`, counted
    within the window, are sound that hasn't been given yet."""

    start: int
    count: int
    keep_from: int
    keep_to: int


class Windows:
    """Says which windows can be decoded as frames come in. Pure: counts frames, holds none."""

    def __init__(self, context: int = 3) -> None:
        self.context = context
        self.size = 2 * context + 1
        self._frames = 0
        self._given = 0

    @property
    def oldest(self) -> int:
        """The first frame that a later window can still need."""
        return max(0, min(self._given - self.context, self._frames - self.size))

    def push(self, frames: int) -> Iterator[Window]:
        """Take so many further frames; the windows that they complete, in order."""
        for _ in range(frames):
            self._frames += 1
            if self._frames >= self.size:
                start = self._frames - self.size
                yield self._window(start, self.context + 1)

    def flush(self) -> Window | None:
        """The stream is over: the window that gives what is left, None if nothing is."""
        if self._given == self._frames:
            return None
        return self._window(max(0, self._frames - self.size), min(self.size, self._frames))

    def _window(self, start: int, keep_to: int) -> Window:
        window = Window(start, min(self.size, self._frames), self._given - start, keep_to)
        self._given = start + keep_to
        return window


class Recent(deque[list[int]]):
    """The last frames of a stream by their number."""

    def __init__(self) -> None:
        super().__init__()
        self.first = 0

    def window(self, window: Window) -> list[list[int]]:
        """The frames of a window."""
        at = window.start - self.first
        return [self[at + n] for n in range(window.count)]

    def forget(self, before: int) -> None:
        """Let go of the frames before that number."""
        while self.first < before:
            self.popleft()
            self.first += 1
