"""Clips become frames: evenly in time, bounded in number and size, whatever the header says."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from motet.components.errors import BadInput
from motet.components.pixels import decode, size_of
from motet.components.vision.video import Sampling, sample


def clip(path: Path, seconds: float, *, fps: int = 10, width: int = 320, height: int = 160) -> Path:
    """A clip whose brightness grows with time: 10 a second."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mpeg4", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for n in range(int(seconds * fps)):
            pixels = np.full((height, width, 3), min(n * 10 // fps, 255), np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return path


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi"])
def test_frames_are_a_second_apart_and_show_their_time(tmp_path: Path, suffix: str) -> None:
    parts = sample(clip(tmp_path / f"c.{suffix}", 6), Sampling(fps=1), clip=2)
    assert [round(part.time_s) for part in parts] == list(range(6))
    assert {part.clip for part in parts} == {2}
    for part in parts:
        assert abs(float(decode(part.data).mean()) - part.time_s * 10) < 6


def test_long_clips_are_thinned_over_their_whole_length(tmp_path: Path) -> None:
    parts = sample(clip(tmp_path / "c.mp4", 20), Sampling(fps=5, max_frames=8), clip=1)
    assert 6 <= len(parts) <= 8
    assert parts[0].time_s < 1
    assert parts[-1].time_s > 16


def test_frames_are_reduced_and_clips_too_long_refused(tmp_path: Path) -> None:
    path = clip(tmp_path / "c.mp4", 2)
    size = size_of(sample(path, Sampling(max_side=64), clip=1)[0].data)
    assert (size.width, size.height) == (64, 32)
    with pytest.raises(BadInput, match="at most 1 s"):
        sample(path, Sampling(max_s=1), clip=1)


@pytest.mark.parametrize(
    "data", [b"", b"RIFF....AVI LIST", b"\x00" * 500, b"#EXTM3U\nfile:///etc/"]
)
def test_what_is_no_clip_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c.mp4"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"c\.mp4"):
        sample(path, Sampling(), clip=1)
