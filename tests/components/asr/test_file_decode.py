"""How a batch is decoded again where it fails: on less at once, as it takes more memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from motet.components.asr.file_checks import CheckRules
from motet.components.asr.file_chunks import Chunk
from motet.components.asr.file_decode import Ask, ChunkDecoder, ChunkText, _Heard
from motet.components.asr.file_language import LanguageVote

RATE_HZ = 16_000


class Failing(ChunkDecoder):
    """Marks every text at its usual length; `full` says how many were decoded at full length."""

    def __init__(self, frames: int) -> None:
        super().__init__(None, CheckRules(), frames)
        self.full: list[int] = []

    def _once(self, chunks, ask, vote, stop, *, full=False):
        if full:
            self.full.append(len(chunks))
        text = ChunkText("said.", "en", marks=() if full else ("repetition",), tokens=())
        return [_Heard(chunk, text, np.zeros((1500, 4), np.float32)) for chunk in chunks]


@pytest.mark.parametrize(
    ("batch", "frames", "full"),
    [(8, 12_000, [4, 4]), (3, 3000, [1, 1, 1]), (1, 1, [1]), (5, 8999, [2, 2, 1])],
)
def test_failed_chunks_at_full_length_take_no_more_than_a_batch(batch, frames, full):
    decoder = Failing(frames)
    chunks = [Chunk(0, n, np.zeros(RATE_HZ, np.int16), 1.0) for n in range(batch)]
    texts = decoder.decode(chunks, Ask(), LanguageVote("en"), threading.Event())
    assert decoder.full == full
    assert [(text.text, text.marks, text.tries) for text in texts] == [("said.", (), 2)] * batch
