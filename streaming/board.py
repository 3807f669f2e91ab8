"""Progress on a terminal."""

from __future__ import annotations

import sys

_BAR = 24


class Board:
    """One line with a bar for what moved last; lines that are said stand above it."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()

    def show(self, name: str, done: float, total: float) -> None:
        """Draw the bar anew."""
        if not self._live or not total:
            return
        share = min(1.0, done / total)
        bar = "█" * round(share * _BAR)
        sys.stderr.write(f"\r\x1b[K{bar:<{_BAR}} {share:4.0%}  {name}")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        """A line of its own."""
        sys.stderr.write(("\r\x1b[K" if self._live else "") + text + "\n")
