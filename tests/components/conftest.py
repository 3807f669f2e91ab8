"""Speech for tests, made offline by a small synthesizer and kept for the whole run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import soxr

from motet.components.audio import to_int16

RATE_HZ = 16_000


@pytest.fixture(scope="session")
def say() -> Callable[[str], np.ndarray]:
    """`say(text)` is the text spoken: int16 at 16 kHz, its outer silence trimmed to 50 ms."""
    hibari = pytest.importorskip("hibari")
    voice = hibari.Hibari()

    @cache
    def speak(text: str) -> np.ndarray:
        speech = soxr.resample(voice(text, seed=0), 24_000, RATE_HZ)
        loud = np.flatnonzero(np.abs(speech) > 0.01)
        first, last = max(0, loud[0] - 800), loud[-1] + 800
        return to_int16(speech[first:last] * (0.5 / np.abs(speech).max()))

    return speak


@pytest.fixture(scope="session")
def quiet() -> Callable[[float], np.ndarray]:
    """`quiet(ms)` is a room's faint noise (-70 dB), int16 at 16 kHz."""

    def room(milliseconds: float) -> np.ndarray:
        samples = int(milliseconds * RATE_HZ / 1000)
        return np.random.default_rng(samples).normal(0, 10, samples).astype(np.int16)

    return room
