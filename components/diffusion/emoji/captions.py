"""Writes captions: a thing, perhaps with a colour, a size and a motion, in many wordings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .glyphs import Glyph
from .motion import PHRASES
from .names import aliases_of
from .scene import COLOURS

_FRAMES = (
    "{a}",
    "{the}",
    "{bare}",
    "{bare}",
    "a picture of {a}",
    "an emoji of {a}",
    "{bare} emoji",
    "a drawing of {a}",
    "an icon of {a}",
    "{a} on a white background",
)
_SMALL = ("small", "tiny", "little")
_BIG = ("big", "large", "huge")
_RARE_KEYWORD = 2


@dataclass(frozen=True, slots=True)
class Wording:
    """What the captions of one glyph may call it: its name, everyday names, telling keywords."""

    name: str
    aliases: tuple[str, ...]
    keywords: tuple[str, ...]

    def pick(self, rng: random.Random) -> str:
        roll = rng.random()
        if roll < 0.35 and self.aliases:
            return rng.choice(self.aliases)
        if roll > 0.9 and self.keywords:
            return rng.choice(self.keywords)
        return self.name


def wordings(glyphs: Sequence[Glyph]) -> list[Wording]:
    """One wording a glyph; a keyword counts if at most two emoji share it and none is named so."""
    shared = Counter(word for glyph in glyphs for word in glyph.keywords)
    named = {glyph.name for glyph in glyphs}
    taken = named | {alias for name in named for alias in aliases_of(name)}
    found: list[Wording] = []
    for glyph in glyphs:
        telling = (w for w in glyph.keywords if shared[w] <= _RARE_KEYWORD and w not in taken)
        found.append(Wording(glyph.name, aliases_of(glyph.name), tuple(telling)))
    return found


def caption(
    wording: Wording,
    rng: random.Random,
    colour: str | None = None,
    size: str | None = None,
    motion: str | None = None,
) -> str:
    """One caption; `size` is "small" or "big", `motion` a key of motion.PHRASES."""
    thing = wording.pick(rng)
    after = ""
    if colour is not None:
        thing = without_colour(thing)
        if rng.random() < 0.9:
            thing = f"{colour} {thing}"
        else:
            after = f" in {colour}"
    if size is not None:
        thing = f"{rng.choice(_SMALL if size == 'small' else _BIG)} {thing}"
    if motion is not None:
        return _moving(thing + after, motion, rng)
    return _framed(rng.choice(_FRAMES), thing + after)


def without_colour(thing: str) -> str:
    """The name without a leading colour word: "red apple" is "apple"."""
    first, _, rest = thing.partition(" ")
    return rest if first in COLOURS and rest else thing


def _moving(thing: str, motion: str, rng: random.Random) -> str:
    behind, before = PHRASES[motion]
    if before and rng.random() < 0.35:
        return _framed(rng.choice(_FRAMES[:4]), f"{rng.choice(before)} {thing}")
    frame = rng.choice((*_FRAMES[:4], "a clip of {a}", "a video of {a}"))
    link = rng.choice((" ", " ", " ", " that is "))
    phrase = rng.choice(behind)
    return _framed(frame, thing) + (link + phrase if phrase else "")


def _framed(frame: str, thing: str) -> str:
    article = "an" if thing[:1] in "aeiou" else "a"
    return frame.format(a=f"{article} {thing}", the=f"the {thing}", bare=thing)
