"""A voice that can be heard through a codec, for calls."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from motet.components.base import Component, Context
from motet.components.frames import Audio, Frame, Spoken, TextDelta, Voice

RATE_HZ = 24_000
SENTENCE_MS = 800


class Hum(Component):
    """Hums 800 ms for every sentence, at once."""

    accepts = (TextDelta, Voice)
    emits = (Spoken, Audio)
    concurrency = 64

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        samples = np.arange(RATE_HZ * SENTENCE_MS // 1000)
        hum = (8000 * np.sin(2 * np.pi * 220 * samples / RATE_HZ)).astype(np.int16)
        text, at_ms = "", 0.0
        async for frame in frames:
            if not (isinstance(frame, TextDelta) and frame.spoken):
                continue
            text += frame.text
            if not text.rstrip().endswith("."):
                continue
            yield Spoken(text, at_ms, at_ms + SENTENCE_MS)
            for start in range(0, len(hum), 4800):
                yield Audio(hum[start : start + 4800], RATE_HZ, at_ms + start * 1000 / RATE_HZ)
            text, at_ms = "", at_ms + SENTENCE_MS
