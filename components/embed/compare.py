"""How close a quantised or converted model of embeddings is to its original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import BadInput
from .encoder import Dtype, TextEncoder, Vector

LEAST_COSINE = 0.99
SENTENCES = (
    "The cat sat on the mat.",
    "Quarterly revenue rose by twelve percent, mostly in Asia.",
    "How do I reset my password?",
    "def add(a, b): return a + b",
    "SELECT name FROM users WHERE id = 3;",
    "Wie komme ich zum Bahnhof?",
    "Le train de huit heures est en retard.",
    "Photosynthesis turns light into chemical energy.",
    "42",
    "a",
    "The committee could not agree, and so the vote was put off until the spring. " * 8,
    "Error 0x80070057: the parameter is incorrect",
)
"""Short and long, prose and code, several languages: what the check embeds when it's given none."""


@dataclass(frozen=True, slots=True)
class Closeness:
    """Cosines of the same texts under two models, in the texts' order.

    `order` is the share of texts whose nearest other text is the same under both.
    """

    cosines: tuple[float, ...]
    order: float

    @property
    def least(self) -> float:
        """The worst text's cosine."""
        return min(self.cosines)

    @property
    def mean(self) -> float:
        """The mean cosine."""
        return sum(self.cosines) / len(self.cosines)

    def passes(self, least: float = LEAST_COSINE) -> bool:
        """Whether every text is that close."""
        return self.least >= least


def compare(
    original: Path,
    changed: Path,
    texts: Sequence[str] = SENTENCES,
    *,
    dtype: Dtype = "float32",
    threads: int = 1,
) -> Closeness:
    """Embed `texts` with both models; `dtype` is that of the changed one. Blocking.

    Raises:
        BadInput: fewer than two texts, or vectors of different lengths.
    """
    if len(texts) < 2:
        raise BadInput("at least two texts are needed", where="texts")
    first = _embed(TextEncoder(original, threads=threads), texts)
    second = _embed(TextEncoder(changed, dtype=dtype, threads=threads), texts)
    if first.shape != second.shape:
        raise BadInput(
            f"{original.name} makes vectors of {first.shape[1]}, {changed.name} of"
            f" {second.shape[1]}; they can't be compared",
            where="model",
        )
    cosines = (first * second).sum(axis=1)
    same = nearest_of(first) == nearest_of(second)
    return Closeness(tuple(float(one) for one in cosines), float(same.mean()))


def _embed(encoder: TextEncoder, texts: Sequence[str]) -> Vector:
    tokens = [encoder.tokenise(text, truncate=True) for text in texts]
    vectors = np.stack(encoder.encode(tokens))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)


def nearest_of(vectors: Vector) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """For each text the place of the nearest other."""
    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -np.inf)
    return likeness.argmax(axis=1)
