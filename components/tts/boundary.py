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
    last = _last_word(text[:start])
    whole = word is not None and word.end() < len(after)
    if not (certain or whole or (follows and not _hangs_on_next(text[start:stop], last))):
        return None
    if not after or _ends(last, text[start:stop], after, follows):
        return stop
    return False


def _closers_end(text: str, end: int) -> int:
    found = CLOSERS.match(text, end)
    return found.end() if found else end


def _last_word(before: str) -> str:
    found = WORD_BEFORE.search(before[-40:])
    return found[0].strip("'\u2019-") if found else ""


def _hangs_on_next(marks: str, last: str) -> bool:
    """Whether the whole next word counts, not its first letter alone."""
    if not marks.startswith(".") or marks.startswith(".."):
        return False
    plain = last.replace(".", "").lower()
    single = len(last) == 1 and last.isalpha() and last != "I"
    return plain in PERHAPS or single or DOTTED.fullmatch(last) is not None


def _ends(last: str, marks: str, after: str, follows: str) -> bool:
    """Whether a sentence ends between the word `last` with its `marks` and `after`.

    `follows` is the first word of `after`, or as much of it as counts.
    """
    lower = bool(follows) and follows[0].islower()
    if marks[0] in "!?\u061f\u06d4\u0964":
        return not lower or marks[-1] not in QUOTES
    if marks.startswith(("..", "…")):
        return not lower
    plain = last.replace(".", "").lower()
    if plain in NEVER or (plain in TITLES and not lower):
        return False
    if plain in NUMBERED and after[0].isdigit():
        return False
    if _hangs_on_next(marks, last):
        return follows.lower() in STARTERS and not lower
    if lower:
        return len(plain) >= 3 and plain not in TITLES and plain not in NUMBERED
    return True
