"""Text for speech: clauses cut from a text while a model still writes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

import regex

from ..frames import Control, Frame, TextDelta, Voice
from .boundary import CANDIDATE, sentence_end
from .clean import Cleaner, Piece

WIDE = r"[\uff0c\u3001\uff1b\uff1a]"
SOFT = regex.compile(rf",(?=\s[^\s\d])|[;:—\u2013](?=\s)|{WIDE}(?=.)", regex.DOTALL)
BREATH = regex.compile(rf"[,;:—\u2013]\s|{WIDE}|\)\s")
LOOSE_MARK = regex.compile(r" ([,.;:!?])(?=\s|$)")
SPACE = regex.compile(r"\s")
SLICE = 1000
ENDLESS = 4
"""Times the limit: a text so long without a certain end is cut as if it had one."""
SPEAKABLE = regex.compile(r"[\p{L}\p{N}]")


@dataclass(frozen=True, slots=True)
class Clause:
    """What is spoken in one go: the slice of the text it comes from, and the words to say.

    `spoken` is empty for what isn't said (code, a table). `pause_ms` of silence belong behind it.
    """

    source: str
    spoken: str
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cuts:
    """Lengths in characters: the first clause may end at a comma after `first_chars` or three
    words and is cut at `first_limit`; later ones are whole sentences up to `limit`.
    """

    first_chars: int = 20
    first_limit: int = 120
    limit: int = 250
    sentence_pause_ms: int = 150
    comma_pause_ms: int = 60
    break_pause_ms: int = 220


class Clauses:
    """Cuts a text that comes in pieces; the sources of all clauses join to that text.

    The clauses are the same however the text is cut into pieces. None of the libraries for
    sentence segmentation does this: they take a whole text, or give up the place in the source.
    """

    def __init__(self, cuts: Cuts | None = None) -> None:
        self._cuts = cuts or Cuts()
        self._cleaner = Cleaner()
        self._sources: list[str] = []
        self._ends: list[int] = []
        self._text = ""
        self._scanned = 0
        self._muted = ""
        self._first = True

    def feed(self, text: str) -> Iterator[Clause]:
        """The clauses that `text` completes; take them all. A long text is read as they are taken,
        so that nobody waits for the whole of it."""
        for at in range(0, len(text), SLICE):
            for piece in self._cleaner.feed(text[at : at + SLICE]):
                yield from self._take(piece)

    def flush(self) -> list[Clause]:
        """The rest of the text: nothing is left waiting."""
        clauses = [clause for piece in self._cleaner.flush() for clause in self._take(piece)]
        return clauses + self._close(self._cuts.sentence_pause_ms) + self._unmute()

    def _take(self, piece: Piece) -> list[Clause]:
        if piece.mark == "mute":
            clauses = self._close(self._cuts.break_pause_ms)
            self._muted += piece.source
            return clauses
        clauses = self._unmute()
        self._sources.append(piece.source)
        self._text += piece.spoken
        self._ends.append(len(self._text))
        if piece.mark == "break":
            if SPEAKABLE.search(self._text):
                clauses += self._close(self._cuts.break_pause_ms)
            return clauses
        return clauses + self._cut(final=False)

    def _unmute(self) -> list[Clause]:
        source, self._muted = self._muted, ""
        return [Clause(source, "")] if source else []

    def _close(self, pause_ms: int) -> list[Clause]:
        """Cut what is certain now that nothing follows, and end the rest."""
        clauses = self._cut(final=True)
        if not self._sources:
            return clauses
        if not SPEAKABLE.search(self._text):
            # What says nothing joins its neighbour.
            self._muted += self._slice(len(self._text), everything=True)[0]
            return clauses
        return [*clauses, self._clause(len(self._text), pause_ms, everything=True)]

    def _cut(self, *, final: bool) -> list[Clause]:
        clauses: list[Clause] = []
        while (found := self._next_cut(final=final)) is not None:
            end, pause_ms = found
            clauses.append(self._clause(end, pause_ms))
        return clauses

    def _next_cut(self, *, final: bool) -> tuple[int, int] | None:
        """Where the next clause ends, and its pause; None when that isn't certain yet."""
        text, cuts = self._text, self._cuts
        limit = cuts.first_limit if self._first else cuts.limit
        endless = len(text) > ENDLESS * limit
        soft = self._soft_cut(text[: limit + 1]) if self._first else None
        for found in CANDIDATE.finditer(text, self._scanned):
            if soft is not None and soft < found.start():
                break
            if found.start() >= limit:
                break
            end = sentence_end(text, found.start(), found.end(), final=final or endless)
            if end is None:
                return None
            if end is False or not SPEAKABLE.search(text, 0, end):
                self._scanned = found.end()  # more text won't make an end of it
                continue
            if end == len(text):
                return None
            return self._behind_space(end), cuts.sentence_pause_ms
        if soft is not None:
            return self._behind_space(soft), cuts.comma_pause_ms
        if len(text) > limit:
            return self._long_cut(limit), cuts.comma_pause_ms
        return None

    def _soft_cut(self, text: str) -> int | None:
        """The end of the first comma that has enough before it."""
        for found in SOFT.finditer(text):
            said = text[: found.start()].strip()
            wide = found[0] in "\uff0c\u3001\uff1b\uff1a"
            if len(said) >= self._cuts.first_chars or len(said.split()) >= 3:
                return found.end()
            if wide and len(said) >= 8:
                return found.end()
        return None

    def _long_cut(self, limit: int) -> int:
        """A breath in the last 60 % of `limit` characters, else a space there, else the limit."""
        head = self._text[:limit]
        for pattern in (BREATH, SPACE):
            ends = [found.end() for found in pattern.finditer(head) if found.end() > limit * 0.4]
            if ends:
                return ends[-1]
        return limit

    def _behind_space(self, end: int) -> int:
        """One space behind the end goes with the clause."""
        text = self._text
        return end + 1 if end < len(text) and text[end].isspace() else end

    def _clause(self, end: int, pause_ms: int, *, everything: bool = False) -> Clause:
        source, spoken = self._slice(end, everything=everything)
        self._first = False
        words = LOOSE_MARK.sub(r"\1", " ".join(spoken.split()))
        return Clause(source, words if SPEAKABLE.search(words) else "", pause_ms)

    def _slice(self, end: int, *, everything: bool) -> tuple[str, str]:
        """Take the pieces up to `end` in the spoken text off the front."""
        count = next((i + 1 for i, at in enumerate(self._ends) if at >= end), len(self._ends))
        count = len(self._ends) if everything else count
        end = self._ends[count - 1]
        source, spoken = "".join(self._sources[:count]), self._text[:end]
        self._sources, self._text = self._sources[count:], self._text[end:]
        self._ends = [at - end for at in self._ends[count:]]
        self._scanned = 0
        return source, spoken


async def clauses_of(
    frames: AsyncIterator[Frame], clauses: Clauses
) -> AsyncGenerator[Clause | Voice | Control, None]:
    """The clauses of the spoken text among `frames`, with the voices in their places."""
    async for frame in frames:
        if isinstance(frame, TextDelta) and frame.spoken:
            for clause in clauses.feed(frame.text):
                yield clause
        elif isinstance(frame, Voice | Control):
            yield frame
    for clause in clauses.flush():
        yield clause
