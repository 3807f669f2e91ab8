"""Which frames of a codec stream are decoded together, and which of them are then exact.

A convolutional decoder sees `context` frames to each side. A window of 2·context + 1 frames gives
its middle frame exactly as a decode of the whole stream would. Nothing precedes a stream's first
frame, so that its first windows are shorter and its first sound is there `context` frames sooner;
the last window gives all that is left.
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
        return max(0, self._given - self.context)

    def push(self, frames: int) -> Iterator[Window]:
        """Take so many further frames; the windows that they complete, in order."""
        for _ in range(frames):
            self._frames += 1
            if self._frames > self.context:
                yield self._window(max(0, self._frames - self.size), self._frames - self.context)

    def flush(self) -> Window | None:
        """The stream is over: the window that gives what is left, None if nothing is."""
        if self._given == self._frames:
            return None
        return self._window(self.oldest, self._frames)

    def _window(self, start: int, until: int) -> Window:
        window = Window(start, self._frames - start, self._given - start, until - start)
        self._given = until
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
