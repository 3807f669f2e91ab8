"""A file's segments until its end, packed: hours of words take a few megabytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable

from ..frames import Segment
from ..transcription import Json, segment_json

_BLOCK = 128


class KeptSegments:
    """Segments as results have them; those of one track come in order of time."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._open: list[Json] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, segments: Iterable[Segment]) -> None:
        """Keep some more."""
        shapes = [segment_json(segment) for segment in segments]
        self._count += len(shapes)
        self._open += shapes
        if len(self._open) >= _BLOCK:
            self._packed.append(zlib.compress(json.dumps(self._open).encode(), 1))
            self._open = []

    def shapes(self) -> list[Json]:
        """All of them in order of time, numbered anew."""
        shapes: list[Json] = []
        for block in self._packed:
            shapes += json.loads(zlib.decompress(block))
        shapes += self._open
        shapes.sort(key=lambda shape: shape["start"])
        return [shape | {"id": index} for index, shape in enumerate(shapes)]
