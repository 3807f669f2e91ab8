"""G.711 against the reference in the standard library, over every sample and every byte."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from motet.components import g711

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    audioop = pytest.importorskip("audioop")

EVERY_SAMPLE = np.arange(-32768, 32768).astype(np.int16)
EVERY_BYTE = bytes(range(256))


def test_ulaw_is_that_of_the_standard():
    assert g711.ulaw_encode(EVERY_SAMPLE) == audioop.lin2ulaw(EVERY_SAMPLE.tobytes(), 2)
    assert g711.ulaw_decode(EVERY_BYTE).tobytes() == audioop.ulaw2lin(EVERY_BYTE, 2)


def test_alaw_is_that_of_the_standard():
    assert g711.alaw_encode(EVERY_SAMPLE) == audioop.lin2alaw(EVERY_SAMPLE.tobytes(), 2)
    assert g711.alaw_decode(EVERY_BYTE).tobytes() == audioop.alaw2lin(EVERY_BYTE, 2)


@pytest.mark.parametrize(
    ("encode", "decode"),
    [(g711.ulaw_encode, g711.ulaw_decode), (g711.alaw_encode, g711.alaw_decode)],
)
def test_noise_of_the_codec_stays_35_db_below_speech(encode, decode):
    signal = (np.random.default_rng(0).normal(0, 3000, 16_000)).astype(np.int16)
    error = decode(encode(signal)).astype(float) - signal
    assert 10 * np.log10(np.mean(signal.astype(float) ** 2) / np.mean(error**2)) > 35
