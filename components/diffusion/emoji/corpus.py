"""The training material: which picture, colour and caption make an example, and text to learn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import captions, motion, scene
from .common import COMMON_NAMES, THINGS_THAT_MOVE
from .glyphs import Glyph
from .names import aliases_of

_KEEP_COLOUR_GROUPS = frozenset({"Smileys & Emotion", "People & Body", "Symbols"})


@dataclass(frozen=True, slots=True)
class Look:
    """One glyph in one colour: index of the glyph, colour word or None, straight RGBA picture."""

    glyph: int
    colour: str | None
    natural: bool
    picture: NDArray[np.uint8]


def looks(glyphs: Sequence[Glyph], pictures: NDArray[np.uint8]) -> list[Look]:
    """Every glyph as it is, then every colour that a recolourable thing can take.

    A natural look knows its colour too, so that "a red car" asks for the car as drawn.
    """
    natural: list[Look] = []
    painted: list[Look] = []
    for index, glyph in enumerate(glyphs):
        hue = None if _keeps_colour(glyph) else scene.dominant_hue(pictures[index])
        own = None if hue is None else scene.colour_of(hue)
        natural.append(Look(index, own, True, pictures[index]))
        if hue is None:
            continue
        painted.extend(
            Look(index, colour, False, scene.recolour(pictures[index], hue, colour))
            for colour in scene.COLOURS
            if colour != own
        )
    return natural + painted


def _keeps_colour(glyph: Glyph) -> bool:
    first = glyph.name.partition(" ")[0]
    return glyph.group in _KEEP_COLOUR_GROUPS or (
        glyph.subgroup == "book-paper" and first in scene.COLOURS
    )


def text_to_learn(glyphs: Sequence[Glyph], words: Sequence[str], count: int) -> list[str]:
    """Captions and other short phrases from which the text encoder learns, drawn with a fixed seed.

    `words` are common English words, so that what no caption names has a meaning too.
    """
    rng = random.Random(5)
    texts = [""]
    wordings = captions.wordings(glyphs)
    for wording in wordings:
        texts.extend({wording.name, *wording.aliases, *wording.keywords})
    texts.extend(words)
    while len(texts) < count:
        wording = rng.choice(wordings)
        if rng.random() < 0.25:
            wording = captions.Wording(" ".join(rng.sample(words, rng.randint(1, 2))), (), ())
        texts.append(
            captions.caption(
                wording,
                rng,
                colour=rng.choice(scene.COLOURS) if rng.random() < 0.35 else None,
                size=rng.choice(("small", "big")) if rng.random() < 0.15 else None,
                motion=rng.choice(motion.MOTIONS) if rng.random() < 0.5 else None,
            )
        )
    return texts


def weights(glyphs: Sequence[Glyph]) -> list[float]:
    """How often each glyph is shown; in a short training only what people ask for is learned."""
    common = {*COMMON_NAMES, *THINGS_THAT_MOVE}
    return [
        2.0 if glyph.name in common else 0.4 if aliases_of(glyph.name) else 0.0 for glyph in glyphs
    ]
