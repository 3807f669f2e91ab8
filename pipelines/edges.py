"""The edges of a pipeline file, as written: which names they join, and what can travel on them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..components.frames import Frame
from .spec import EdgeSpec, PipelineSpec


def items(entry: str | dict[str, list[str] | EdgeSpec]) -> Iterator[tuple[str, EdgeSpec]]:
    """An entry of `edges` as pairs of its text and its settings."""
    if isinstance(entry, str):
        yield entry, EdgeSpec()
        return
    for text, value in entry.items():
        yield text, value if isinstance(value, EdgeSpec) else EdgeSpec(carries=tuple(value))


def pairs_of(spec: PipelineSpec) -> list[tuple[str, str]]:
    """All pairs of names that the edges join, whether they exist or not."""
    texts = (text for entry in spec.edges for text, _ in items(entry))
    return [pair for text in texts for pair in pairwise(names_in(text))]


def names_in(text: str) -> list[str]:
    """The names of "a -> b -> c"; an empty one where one is missing."""
    return [part.strip() for part in text.split("->")]


def spread(start: frozenset[str], pairs: list[tuple[str, str]]) -> set[str]:
    """Everything that can be reached from `start` along the pairs."""
    reached = set(start)
    while more := {t for s, t in pairs if s in reached} - reached:
        reached |= more
    return reached


def meet(emits: tuple[type[Frame], ...], accepts: tuple[type[Frame], ...]) -> Iterator[type[Frame]]:
    """The frame types that fit both sides, the narrower of each pair."""
    for out in emits:
        for into in accepts:
            if issubclass(out, into):
                yield out
            elif issubclass(into, out):
                yield into


def names_of(kinds: tuple[type[Frame], ...]) -> str:
    """Names of frame types for a message."""
    return ", ".join(kind.__name__ for kind in kinds) or "nothing"
