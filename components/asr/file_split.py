"""Cutting a chunk in two where it is quietest, for a second try on less at once."""

from __future__ import annotations

import numpy as np

from ..mel import RATE_HZ
from .file_chunks import Chunk

_STEP = RATE_HZ // 50
_SHORTEST_S = 4.0


def halves(chunk: Chunk) -> list[Chunk]:
    """Two chunks that join to this one, cut near the middle in a pause; itself if it is short."""
    if chunk.duration_s < _SHORTEST_S:
        return [chunk]
    count = len(chunk.pcm) // _STEP
    steps = chunk.pcm[: count * _STEP].reshape(count, _STEP).astype(np.float32)
    energy = np.convolve((steps**2).mean(axis=1), np.ones(10) / 10, mode="same")
    low, high = count // 4, 3 * count // 4
    cut = (low + int(energy[low:high].argmin())) * _STEP
    return [_piece(chunk, 0, cut), _piece(chunk, cut, len(chunk.pcm))]


def _piece(chunk: Chunk, low: int, high: int) -> Chunk:
    spans = tuple(
        (max(start, low) - low, min(end, high) - low)
        for start, end in chunk.spans
        if start < high and end > low
    )
    speech_s = sum(end - start for start, end in spans) / RATE_HZ
    return Chunk(chunk.track, chunk.start + low, chunk.pcm[low:high], speech_s, spans)
