"""Clips as files: MP4 (H.264) of pixels, a thumbnail of one, and a sheet of its frames."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image as pictures

Clip = NDArray[np.uint8]
"""uint8 (frames, height, width, 3)."""

_CRF = "18"
_SHEET_COLUMNS = 4


def write_mp4(path: Path, clip: Clip, fps: float) -> None:
    """An MP4 that plays everywhere and starts before it is whole; odd sides lose a line."""
    height, width = clip.shape[1] // 2 * 2, clip.shape[2] // 2 * 2
    rate = Fraction(fps).limit_denominator(1001)
    # PyAV's annotations of packets are partial.
    container: Any = av.open(path, mode="w", format="mp4", options={"movflags": "faststart"})
    with container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": _CRF, "preset": "veryfast"}
        stream.codec_context.thread_count = 1
        for picture in clip:
            pixels = np.ascontiguousarray(picture[:height, :width])
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)


def thumbnail(clip: Clip) -> bytes:
    """The middle frame as WebP."""
    return still(clip[len(clip) // 2])


def still(pixels: NDArray[np.uint8]) -> bytes:
    """One picture as WebP."""
    return _picture(pixels, "WEBP")


def spritesheet(clip: Clip) -> bytes:
    """All frames in rows of four, as JPEG; the places after the last are black."""
    rows = math.ceil(len(clip) / _SHEET_COLUMNS)
    frames, height, width, channels = clip.shape
    empty = np.zeros((rows * _SHEET_COLUMNS - frames, height, width, channels), np.uint8)
    grid = np.concatenate([clip, empty]).reshape(rows, _SHEET_COLUMNS, height, width, channels)
    sheet = grid.transpose(0, 2, 1, 3, 4).reshape(rows * height, _SHEET_COLUMNS * width, channels)
    return _picture(sheet, "JPEG")


def _picture(pixels: NDArray[np.uint8], picture_format: str) -> bytes:
    out = io.BytesIO()
    pictures.fromarray(np.ascontiguousarray(pixels)).save(out, picture_format, quality=90)
    return out.getvalue()
