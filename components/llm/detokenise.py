"""Tokens to text as they come: whole characters only, and nothing behind a stop string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

INCOMPLETE = "\ufffd"
LONGEST_INCOMPLETE = 6
"""Tokens to wait for the rest of a character; after that it is taken for broken."""


@dataclass(slots=True)
class Detokeniser:
    """Turns one answer's tokens into text, piece by piece; pure but for `decode`.

    The pieces join to what `decode` makes of all tokens, cut before the first of `stop`. Text that
    may be the beginning of a stop string is held back until that is sure.
    """

    decode: Callable[[list[int]], str]
    stop: tuple[str, ...] = ()
    stopped: bool = False
    _tokens: list[int] = field(default_factory=list[int])
    _read: int = 0
    _held: str = ""

    def push(self, token: int) -> str:
        """The text that is sure after one more token."""
        self._tokens.append(token)
        # Decoding from a little earlier keeps what depends on the token before (spaces).
        before = max(0, self._read - LONGEST_INCOMPLETE)
        known = self.decode(self._tokens[before : self._read])
        text = self.decode(self._tokens[before:])
        waits = len(self._tokens) - self._read
        if text.endswith(INCOMPLETE) and waits < LONGEST_INCOMPLETE:
            return ""
        self._read = len(self._tokens)
        self._held += text[len(known) :]
        return self._release()

    def finish(self) -> str:
        """What is left at the end."""
        before = max(0, self._read - LONGEST_INCOMPLETE)
        known = self.decode(self._tokens[before : self._read])
        self._held += self.decode(self._tokens[before:])[len(known) :]
        self._read = len(self._tokens)
        text = self._release()
        rest, self._held = self._held, ""
        return text + ("" if self.stopped else rest)

    def _release(self) -> str:
        if self.stopped:
            return ""
        found = [place for s in self.stop if (place := self._held.find(s)) >= 0]
        if found:
            text, self._held, self.stopped = self._held[: min(found)], "", True
            return text
        keep = max((overlap(self._held, s) for s in self.stop), default=0)
        sure = len(self._held) - keep
        text, self._held = self._held[:sure], self._held[sure:]
        return text


def overlap(text: str, stop: str) -> int:
    """How many of the text's last characters may be the beginning of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if stop.startswith(text[-n:])), 0)
