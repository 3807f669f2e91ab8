"""A file as chunks: read, mixed, listened to and cut, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..media_read import MediaReader
from ..speech import SileroModel
from .file_chunks import Chunk, CutRules, Cutter

_BLOCK_S = 4.0


class ChunkSource:
    """Iterates the chunks of a file in order of their ends; blocking. Memory stays constant.

    Raises:
        BadInput: at construction or while iterating; see `MediaReader`.
    """

    def __init__(
        self,
        path: str,
        name: str,
        vad: SileroModel,
        rules: CutRules,
        *,
        split: bool = False,
        limit_s: float,
    ) -> None:
        self.reader = MediaReader(path, name=name, split=split, block_s=_BLOCK_S, limit_s=limit_s)
        self._cutters = [Cutter(vad, rules, track) for track in range(self.reader.tracks)]

    def __iter__(self) -> Iterator[list[Chunk]]:
        """The chunks that each block of the file completes, often none."""
        for block in self.reader:
            yield [
                chunk
                for cutter, pcm in zip(self._cutters, block, strict=True)
                for chunk in cutter.push(pcm)
            ]
        silence = np.zeros(0, np.int16)
        yield [chunk for cutter in self._cutters for chunk in cutter.push(silence, last=True)]

    @property
    def tracks(self) -> int:
        """How many tracks are cut: 1, or the file's channels."""
        return self.reader.tracks

    @property
    def duration_s(self) -> float:
        """The file's length: its header's word until it is read to the end, or what was read."""
        return max(self.reader.info.duration_s or 0.0, self.reader.report.read_s)
