"""Spectral clustering of voices: how many speakers there are, and who each window belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2  # pyright: ignore[reportUnknownVariableType]
from scipy.linalg import eigh  # pyright: ignore[reportUnknownVariableType]

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

_NEIGHBOURS = 0.1
_FEWEST_NEIGHBOURS = 16
_FEWEST_WINDOWS = 8
_DOUBT = 0.4
_FAR = 0.01
_RESTARTS = 5
_LARGEST = 2000


@dataclass(frozen=True, slots=True)
class SpeakerCount:
    """How many speakers to find: between `low` and `high`; the same number where it is known."""

    low: int = 1
    high: int = 8


def cluster(vectors: Floats, count: SpeakerCount, merge_above: float = 0.9) -> Floats:
    """Unit centroids (speakers, dim) of unit vectors (windows, dim).

    Normalised cuts on the similarity graph, each window joined to its nearest tenth (von Luxburg
    2007); the number is the largest gap between eigenvalues. Clusters whose centroids are closer
    than `merge_above` (less where they are small and so less sure) are one speaker, down to
    `count.low`.
    """
    sample = vectors
    if len(vectors) > _LARGEST:
        sample = vectors[np.linspace(0, len(vectors) - 1, _LARGEST).astype(int)]
    low = min(count.low, len(sample))
    high = max(low, min(count.high, len(sample) // _FEWEST_WINDOWS))
    if high <= 1 or len(sample) < 4:
        return _centroids(sample, np.zeros(len(sample), np.int64))
    labels = _labels(sample, max(2, low), max(2, high))
    return _merge(sample, labels, low, merge_above)


def _labels(vectors: Floats, low: int, high: int) -> Labels:
    similarity = (vectors @ vectors.T + 1) / 2
    share = max(_NEIGHBOURS, _FEWEST_NEIGHBOURS / len(vectors))
    nearest = np.quantile(similarity, max(0.0, 1 - share), axis=1, keepdims=True)
    graph = np.where(similarity >= nearest, similarity, similarity * _FAR)
    graph = np.maximum(graph, graph.T)
    np.fill_diagonal(graph, 0)
    scale = 1 / np.sqrt(np.maximum(graph.sum(axis=1), 1e-9))
    laplacian = np.eye(len(graph)) - graph * scale[:, None] * scale[None]
    last = min(high, len(graph) - 1)
    values, basis = cast(
        "tuple[NDArray[np.float64], NDArray[np.float64]]",
        eigh(laplacian, subset_by_index=[0, last]),
    )
    gaps = np.diff(values)
    number = low + int(np.argmax(gaps[low - 1 : high])) if high > low else low
    rows = basis[:, :number]
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return _kmeans(rows, number)


def _kmeans(rows: NDArray[np.float64], number: int) -> Labels:
    best: tuple[float, Labels] | None = None
    for seed in range(_RESTARTS):
        centres, found = kmeans2(rows, number, minit="++", rng=seed, iter=30, missing="warn")
        labels = np.asarray(found, np.int64)
        spread = float(((rows - np.asarray(centres)[labels]) ** 2).sum())
        if best is None or spread < best[0]:
            best = (spread, labels)
    assert best is not None
    return best[1]


def _centroids(vectors: Floats, labels: Labels) -> Floats:
    means = np.stack([vectors[labels == label].mean(axis=0) for label in np.unique(labels)])
    return (means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)).astype("f4")


def _merge(vectors: Floats, labels: Labels, low: int, above: float) -> Floats:
    """Join the closest two clusters until none are closer than `above`, or `low` are left."""
    while True:
        names, sizes = np.unique(labels, return_counts=True)
        centroids = _centroids(vectors, labels)
        closeness = centroids @ centroids.T + _DOUBT / np.minimum(sizes[:, None], sizes[None])
        np.fill_diagonal(closeness, -1)
        first, second = np.unravel_index(int(closeness.argmax()), closeness.shape)
        if len(names) <= max(low, 1) or closeness[first, second] < above:
            return _without_ghosts(centroids, labels, low)
        labels = np.where(labels == names[second], names[first], labels)


def _without_ghosts(centroids: Floats, labels: Labels, low: int) -> Floats:
    """Leave out clusters under 2 % of the windows: noise that passed for speech, not a speaker."""
    _, sizes = np.unique(labels, return_counts=True)
    order = np.argsort(-sizes)
    kept = [
        int(index)
        for rank, index in enumerate(order)
        if rank < max(low, 1) or _counts(int(sizes[index]), len(labels))
    ]
    return centroids[sorted(kept)]


def _counts(size: int, total: int) -> bool:
    return size >= max(3, 0.02 * total)
