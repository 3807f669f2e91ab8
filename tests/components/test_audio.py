"""Samples in and out: conversions, bytes cut anywhere, and a resampler that loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.audio import PcmBytes, Resampler, downmix, to_float, to_int16
from motet.components.errors import BadInput


def tone(rate_hz: int, seconds: float, hz: float = 440.0) -> np.ndarray:
    times = np.arange(int(rate_hz * seconds)) / rate_hz
    return to_int16(0.5 * np.sin(2 * np.pi * hz * times))


def test_int16_survives_the_way_through_float():
    every = np.arange(-32768, 32768).astype(np.int16)
    assert np.array_equal(to_int16(to_float(every)), every)


def test_floats_out_of_range_are_clipped_and_nan_is_silence():
    wild = np.array([2.0, -2.0, np.nan, np.inf, -np.inf, 0.0], np.float32)
    assert to_int16(wild).tolist() == [32767, -32768, 0, 32767, -32768, 0]


def test_stereo_at_an_equal_rate_is_still_mixed_down():
    left = tone(48_000, 0.1)
    mono = downmix(np.stack((left, np.zeros_like(left)), axis=1))
    assert mono.shape == left.shape
    assert np.abs(mono - left / 2).max() <= 1


@given(st.binary(max_size=400), st.lists(st.integers(1, 7), min_size=1, max_size=200))
@settings(max_examples=60, deadline=None)
def test_bytes_cut_anywhere_lose_no_sample(data: bytes, cuts: list[int]):
    reader, got, rest, n = PcmBytes(), [], data, 0
    while rest:
        size = cuts[n % len(cuts)]
        got.append(reader.push(rest[:size]))
        rest, n = rest[size:], n + 1
    joined = np.concatenate(got) if got else np.empty(0, np.int16)
    assert np.array_equal(joined, np.frombuffer(data[: len(data) & ~1], "<i2"))


@pytest.mark.parametrize(
    ("from_hz", "to_hz", "chunk"),
    [
        (44_100, 16_000, 100),
        (24_000, 16_000, 480),
        (8_000, 16_000, 160),
        (16_000, 24_000, 1),
        (48_000, 8_000, 961),
    ],
)
def test_chunks_resample_as_one_signal(from_hz: int, to_hz: int, chunk: int):
    signal = tone(from_hz, 1.0)
    resampler = Resampler(from_hz, to_hz)
    parts = [resampler.push(signal[n : n + chunk]) for n in range(0, len(signal), chunk)]
    got = np.concatenate([*parts, resampler.flush()])
    assert abs(len(got) - to_hz) <= 1
    whole = soxr.resample(signal, from_hz, to_hz, quality="MQ")
    assert np.abs(got[: len(whole)].astype(int) - whole[: len(got)]).max() <= 2
    middle = slice(to_hz // 10, -to_hz // 10)
    ideal = tone(to_hz, 1.0)
    assert np.abs(got[: len(ideal)][middle].astype(int) - ideal[: len(got)][middle]).max() < 60


def test_equal_rates_pass_the_same_samples():
    signal = tone(16_000, 0.1)
    resampler = Resampler(16_000, 16_000)
    assert resampler.push(signal) is signal
    assert len(resampler.flush()) == 0


def test_a_flushed_resampler_begins_anew():
    signal = tone(44_100, 0.5)
    resampler = Resampler(44_100, 16_000)
    first = np.concatenate([resampler.push(signal), resampler.flush()])
    second = np.concatenate([resampler.push(signal), resampler.flush()])
    assert len(first) == len(second)
    assert np.abs(first.astype(int) - second).max() <= 2  # the dither differs


@pytest.mark.parametrize("rate_hz", [0, -16_000, 100, 10_000_000])
def test_rates_that_no_audio_has_are_refused(rate_hz: int):
    with pytest.raises(BadInput, match=str(rate_hz)):
        Resampler(rate_hz, 16_000)
