"""Odd recordings: long holds, odd rates and channels, a handful of samples, files cut short."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import av
import numpy as np
import pytest

from motet.components.errors import BadInput
from motet.components.media_read import MediaReader

from ..support.mediafiles import encode, read, seconds, tone, wav


def test_an_hour_on_hold_without_packets_is_silence_and_costs_no_memory(tmp_path):
    path = tmp_path / "call.mka"
    with av.open(str(path), "w", format="matroska") as file:
        stream = file.add_stream("pcm_s16le", rate=16_000, layout="stereo")
        for start_s, hz in ((0, 440.0), (3600, 880.0)):
            packed = np.repeat(tone(2, 16_000, hz), 2)[None]
            frame = av.AudioFrame.from_ndarray(packed, format="s16", layout="stereo")
            frame.rate, frame.pts, frame.time_base = 16_000, start_s * 16_000, Fraction(1, 16_000)
            for packet in stream.encode(frame):
                file.mux(packet)
    reader = MediaReader(path)
    tracemalloc.start()
    try:
        samples, late = 0, np.zeros(0, np.int16)
        for block in reader:
            samples += block.shape[1]
            late = np.concatenate([late, block[0]])[-16_000:]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert samples / 16_000 == pytest.approx(3602, abs=0.01)
    assert np.argmax(np.abs(np.fft.rfft(late))) == pytest.approx(880, abs=3)
    assert reader.report.filled_s == pytest.approx(3598, abs=0.01)
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("rate_hz", "channels"), [(5512, 1), (7350, 2), (11_025, 1), (22_050, 3), (37_800, 5)]
)
def test_odd_rates_and_counts_of_channels_are_heard_at_their_level(tmp_path, rate_hz, channels):
    got, reader = read(tmp_path / "a.wav", wav(np.stack([tone(2, rate_hz)] * channels), rate_hz))
    assert seconds(got) == pytest.approx(2, abs=0.01)
    assert reader.info.channels == channels
    assert np.abs(got[0, 4000:28_000]).max() == pytest.approx(8000, rel=0.05)
    assert np.argmax(np.abs(np.fft.rfft(got[0, 4000:20_000]))) == pytest.approx(440, abs=2)


@pytest.mark.parametrize("samples", [1, 7, 160])
def test_a_few_samples_are_a_recording(tmp_path, samples):
    got, _ = read(tmp_path / "a.wav", wav(np.full(samples, 900, np.int16)))
    assert got.shape == (1, samples)


@pytest.mark.parametrize(
    ("codec", "container"), [("flac", "flac"), ("libopus", "ogg"), ("mp3", "mp3")]
)
def test_a_file_cut_short_is_read_to_its_cut(tmp_path, codec, container):
    data = encode(tone(10, 48_000), 48_000, codec, container)
    got, _ = read(tmp_path / "cut", data[: len(data) // 2])
    assert 4 < seconds(got) < 6


def test_an_mp4_without_its_index_is_bad_input(tmp_path):
    data = encode(tone(10, 48_000), 48_000, "aac", "mp4")
    (tmp_path / "cut.m4a").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match="can't be read"):
        list(MediaReader(tmp_path / "cut.m4a"))
