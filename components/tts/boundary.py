"""Where a sentence of running text ends; pure functions of the text and the place."""

from __future__ import annotations

import regex

from .abbreviations import NEVER, NUMBERED, PERHAPS, STARTERS, TITLES

CANDIDATE = regex.compile(r"[.!?…\u061f\u06d4\u0964]+|[\u3002\uff01\uff1f\uff61]+")
CLOSERS = regex.compile(r"[\"'”\u2019)\]»\u203a」』\uff09】]*")
WORD_BEFORE = regex.compile(r"[\p{L}\p{N}.&'\u2019-]*\Z")
NEXT_WORD = regex.compile(r"[\"'“\u2018(\[«\u2039]*([\p{L}\p{N}'\u2019]*)")
DOTTED = regex.compile(r"(?:\p{L}{1,2}\.)+\p{L}{1,2}")
QUOTES = "\"'”\u2019)]»\u203a"
LOOKAHEAD = 48
WIDE = "\u3002\uff01\uff1f\uff61"


def sentence_end(text: str, start: int, end: int, *, final: bool) -> int | bool | None:
    """Judge the marks `text[start:end]`: where the sentence ends, closing quotes included.

    False when no sentence ends there; None when it hangs on text to come, which is never more
    than LOOKAHEAD characters away. `final` says that none comes.
    """
    certain = final or len(text) - end > LOOKAHEAD
    if end == len(text) and not certain:
        return None
    stop = _closers_end(text, end)
    if stop == len(text):
        return stop if certain else None
    if text[start] in WIDE:
        return stop
    if not text[stop].isspace():
        return False
    after = text[stop:].lstrip()
    word = NEXT_WORD.match(after[:LOOKAHEAD])
    follows = word[1] if word else ""
    if not certain and (not after or word is None or word.end() == len(after)):
        return None
    if not after or _ends(text[:start], text[start:stop], after, follows):
        return stop
    return False


def _closers_end(text: str, end: int) -> int:
    found = CLOSERS.match(text, end)
    return found.end() if found else end


def _ends(before: str, marks: str, after: str, follows: str) -> bool:
    """Whether a sentence ends between `before` + `marks` and `after`, whose first word is given."""
    lower = bool(follows) and follows[0].islower()
    if marks[0] in "!?\u061f\u06d4\u0964":
        return not lower or marks[-1] not in QUOTES
    if marks.startswith(("..", "…")):
        return not lower
    found = WORD_BEFORE.search(before[-40:])
    word = found[0].strip("'\u2019-") if found else ""
    plain = word.replace(".", "").lower()
    starts = follows.lower() in STARTERS and not lower
    if plain in NEVER or (plain in TITLES and not lower):
        return False
    if plain in NUMBERED and after[0].isdigit():
        return False
    if plain in PERHAPS or DOTTED.fullmatch(word):
        return starts
    if len(word) == 1 and word.isalpha() and word != "I":
        return starts
    if lower:
        return len(plain) >= 3 and plain not in TITLES and plain not in NUMBERED
    return True
