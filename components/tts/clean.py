"""Markdown, HTML and LaTeX into words, piece by piece as a model writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import regex

from .markup import END, INLINE_RULES, LINE_RULES, NEWLINE, PLAIN, SYMBOL_RULES, Mark, Rule

KEPT = 4
LONGEST = 2000
"""Characters that a rule looks ahead: what has no end within them is plain text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the text: what was written, and what is said for it.

    `mark` "break" ends a clause behind the piece; "mute" is a block that isn't spoken at all.
    """

    source: str
    spoken: str
    mark: Mark = ""


class Cleaner:
    """Cuts text into pieces whose sources join to exactly what was fed.

    However the text is cut when it is fed, each character ends in the same piece or, where a
    piece is plain text, in one of the same words. A piece waits only while what it is hangs on
    text to come. `inline` leaves out what counts at the start of a line only.
    """

    def __init__(self, *, inline: bool = False) -> None:
        self._text = ""
        self._at = 0
        self._inline = inline
        self._line_start = not inline
        self._hard = False
        self._closing: tuple[Any, Any] | None = None

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        self._text += text.replace(END, "\ufffd")
        return self._pieces(final=False)

    def flush(self) -> list[Piece]:
        """The pieces that waited for more."""
        self._text += END
        pieces = self._pieces(final=True)
        self._text, self._at = "", 0
        return pieces

    def _pieces(self, *, final: bool) -> list[Piece]:
        pieces: list[Piece] = []
        end = len(self._text) - final
        while self._at < end:
            piece = self._next(final)
            if piece is None:
                break
            pieces.append(piece)
        # Rules look back over a few characters, so those stay.
        kept = max(self._at - KEPT, 0)
        self._text, self._at = self._text[kept:], self._at - kept
        return pieces

    def _next(self, final: bool) -> Piece | None:
        """Take the next piece; None while it hangs on more text."""
        if self._closing is not None:
            return self._muted(final)
        char = self._text[self._at]
        if char == "\n" and not self._inline:
            return self._newline(final)
        if self._line_start:
            found = self._first(LINE_RULES, final)
            if found is not None:
                return found if isinstance(found, Piece) else None
            self._line_start = False
        plain = PLAIN.match(char) is not None
        rules = INLINE_RULES.get(char, () if plain else SYMBOL_RULES)
        found = self._first(rules, final)
        if found is None:
            self._at += 1
            return Piece(char, char)
        return found if isinstance(found, Piece) else None

    def _first(self, rules: tuple[Rule, ...], final: bool) -> Piece | bool | None:
        """The piece of the first rule that fits; False to wait, None when none fits."""
        for rule in rules:
            end = min(len(self._text), self._at + LONGEST)
            whole = end < len(self._text)
            match: Any = rule.pattern.match(self._text, self._at, end, partial=not (final or whole))
            if match is None or (match.end() == match.start() and not match.partial):
                continue
            if match.partial:
                return False
            return self._take(rule, match)
        return None

    def _take(self, rule: Rule, match: Any) -> Piece:
        source, self._at = match[0], match.end()
        if "#" in source and self._line_start:
            self._hard = True
        if rule.opens == "fence":
            fence = regex.escape(match["fence"][0]) + f"{{{len(match['fence'])},}}"
            self._closing = (
                regex.compile(rf"[ \t]*{fence}[ \t]*(?:\n|(?={END}))"),
                regex.compile(rf"[^\n{END}]*(?:\n|(?={END}))"),
            )
        elif rule.opens == "tag":
            self._closing = (
                regex.compile(rf"(?i)</{match['tag']}\s*>"),
                regex.compile(rf"<|[^<{END}]+"),
            )
        if rule.mark:
            self._line_start = not self._inline
        return Piece(source, rule.say(match), rule.mark)

    def _muted(self, final: bool) -> Piece | None:
        """A line of a fence, or what stands inside a tag whose content isn't spoken."""
        assert self._closing is not None
        for pattern in self._closing:
            match: Any = pattern.match(self._text, self._at, partial=not final)
            if match is None:
                continue
            if match.partial:
                return None
            if pattern is self._closing[0]:
                self._closing, self._line_start = None, not self._inline
            self._at = match.end()
            return Piece(match[0], "", "mute")
        raise AssertionError("a muted text has neither a line nor an end")

    def _newline(self, final: bool) -> Piece | None:
        """A line's end breaks, but for a line that goes on in lower case."""
        match: Any = NEWLINE.match(self._text, self._at, partial=not final)
        if match is None or match.partial:
            return None
        source, self._at = match[0], match.end()
        follows = self._text[self._at : self._at + 1]
        wrapped = source.count("\n") == 1 and follows.islower() and not self._hard
        self._line_start, self._hard = True, False
        return Piece(source, " ", "" if wrapped else "break")
