"""Log-mel spectrograms against faster-whisper's."""

from __future__ import annotations

import numpy as np
import pytest

from motet.components.audio import to_float
from motet.components.mel import filterbank, log_mel

reference = pytest.importorskip("faster_whisper.feature_extractor").FeatureExtractor


@pytest.mark.parametrize("mels", [80, 128])
def test_filters_are_whispers(mels: int):
    assert np.allclose(filterbank(mels), reference(feature_size=mels).mel_filters, atol=1e-7)


@pytest.mark.parametrize("samples", [400, 16_000, 33_333, 480_000])
def test_a_signal_with_silence_behind_it_is_whispers(say, samples: int):
    signal = to_float(np.tile(say("The ship sails at nine."), 30)[:samples])
    expected = reference()(signal, padding=480_000 - samples)
    found = log_mel(signal, frames=3000)
    assert np.abs(found - expected[:, :3000]).max() < 1e-4


def test_a_signal_alone_is_whispers(say):
    signal = to_float(say("The ship sails at nine."))
    signal = signal[: len(signal) // 160 * 160]
    found = log_mel(signal)
    assert found.shape == (80, len(signal) // 160)
    assert np.abs(found - reference()(signal, padding=0)[:, : found.shape[1]]).max() < 1e-4


def test_silence_is_flat():
    assert np.ptp(log_mel(np.zeros(1600, np.float32), frames=50)) == 0
