"""What a benchmark's callers say may be any audio file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motet.components.errors import BadInput
from motet.streaming.bench.clip import make, read

soundfile = pytest.importorskip("soundfile")


@pytest.mark.parametrize(("kind", "depth"), [("FLAC", "PCM_16"), ("WAV", "PCM_24")])
def test_the_first_channel_of_a_file_is_read(kind: str, depth: str, tmp_path: Path) -> None:
    left = np.random.default_rng(1).integers(-20_000, 20_000, 4_800).astype(np.int16)
    file = tmp_path / "said"
    stereo = np.stack([left, np.zeros_like(left)], axis=1)
    soundfile.write(file, stereo, 48_000, format=kind, subtype=depth)
    samples, rate_hz = read(file)
    assert rate_hz == 48_000
    assert np.array_equal(samples, left)


def test_what_is_no_audio_is_named(tmp_path: Path) -> None:
    file = tmp_path / "text.wav"
    file.write_text("words")
    with pytest.raises(BadInput, match=r"--wav: .*text\.wav"):
        read(file)


@pytest.mark.parametrize(
    ("level", "message"), [(0, "--wav: .*silent"), (9000, "--cycle-s: is 1 s.*takes 2.0 s")]
)
def test_a_cycle_holds_speech_and_all_of_it(tmp_path: Path, level: int, message: str) -> None:
    file = tmp_path / "said.wav"
    soundfile.write(file, np.full(48_000, level, np.int16), 24_000)
    with pytest.raises(BadInput, match=message):
        make(file, cycle_s=1.0)
    if level:
        assert make(file, cycle_s=3.0).speech_chunks == 100
