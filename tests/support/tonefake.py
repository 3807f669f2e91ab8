"""A speaking engine without a model, of two voices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from motet.components.audio import Floats
from motet.components.tts.speaker import Speaker


class Tone(Speaker):
    """Speaks a tone of 20 ms per character, with a second of silence on both sides.

    `spoke` are the voices of all instances.
    """

    rate_hz = 16000
    speeds = (0.5, 2.0)
    spoke: ClassVar[list[str]] = []

    def open(self) -> None:
        self.asked: list[tuple[str, str, float]] = []

    def voices(self) -> list[str]:
        return ["low", "high"]

    def languages(self) -> list[str]:
        return ["de", "nds"]

    def synthesize(self, text: str, voice: str, speed: float) -> Floats:
        self.asked.append((text, voice, speed))
        Tone.spoke.append(voice)
        if "break" in text:
            raise RuntimeError("no such sound")
        if "nan" in text:
            return np.full(1600, np.nan, np.float32)
        length = int(len(text) * 320 / speed)
        pitch_hz = 200 if voice == "low" else 400
        tone = 0.3 * np.sin(np.arange(length) * 2 * np.pi * pitch_hz / 16000)
        silence = np.zeros(16000)
        return np.concatenate([silence, tone, silence]).astype(np.float32)
