"""Clips as pictures: frames sampled evenly in time, reduced, each with its time."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
from av.error import FFmpegError
from PIL import Image as Picture

from ..errors import BadInput
from ..frames import ImagePart
from ..media import OPEN_OPTIONS, duration_of
from .budget import evenly

Detail = Literal["auto", "low", "high"]
KEYFRAMES_FROM_S = 4.0
"""Samples further apart than that are taken from key frames alone: the rest needn't be decoded."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a clip is looked at: frames per second, but at most so many, and pixels a side."""

    fps: float = 1.0
    max_frames: int = 32
    max_side: int = 768
    max_s: float = 3600.0
    detail: Detail = "auto"


def sample(path: str | Path, sampling: Sampling, *, clip: int, name: str = "") -> list[ImagePart]:
    """The frames of a clip as JPEG pictures; blocking.

    Raises:
        BadInput: it can't be read, holds no pictures, or is longer than `max_s`.
    """
    name = name or Path(path).name
    encoded: list[tuple[float, bytes]] = []
    try:
        with av.open(str(path), options=OPEN_OPTIONS) as container:
            if not container.streams.video:
                raise _bad(f"{name!r} holds no pictures")
            stream = container.streams.video[0]
            duration_s = duration_of(container, stream) or 0.0
            if duration_s > sampling.max_s:
                raise _bad(f"{name!r} lasts {duration_s:.0f} s; at most {sampling.max_s:.0f} s")
            step_s = max(1 / sampling.fps, duration_s / sampling.max_frames)
            if step_s >= KEYFRAMES_FROM_S:
                stream.codec_context.skip_frame = "NONKEY"
            frames = _frames(container, stream, sampling.max_s)
            encoded = _thin(frames, step_s, sampling)
    except (FFmpegError, ValueError, UnicodeDecodeError) as error:
        raise _bad(f"{name!r} can't be read as video ({type(error).__name__})") from error
    if not encoded:
        raise _bad(f"no picture of {name!r} could be decoded")
    return [ImagePart(data, sampling.detail, clip=clip, time_s=at_s) for at_s, data in encoded]


def _frames(container: Any, stream: Any, max_s: float) -> Iterator[tuple[float, Any]]:
    """Frames and their times from the first one's on; what can't be decoded is stepped over."""
    first_s: float | None = None
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except FFmpegError:
            continue
        for frame in frames:
            at_s = float(frame.time or 0.0)
            first_s = at_s if first_s is None else first_s
            if at_s - first_s > max_s:
                raise _bad(f"the clip is longer than {max_s:.0f} s")
            yield at_s - first_s, frame


def _thin(
    frames: Iterator[tuple[float, Any]], step_s: float, sampling: Sampling
) -> list[tuple[float, bytes]]:
    """Frames at least `step_s` apart, encoded; the step grows where the header knew less."""
    most = sampling.max_frames
    kept: list[tuple[float, bytes]] = []
    next_s = 0.0
    for at_s, frame in frames:
        if at_s + 1e-6 < next_s:
            continue
        kept.append((at_s, _jpeg(frame, sampling.max_side)))
        next_s = (math.floor(at_s / step_s + 1e-6) + 1) * step_s
        if len(kept) >= 2 * most:
            kept, step_s = kept[::2], 2 * step_s
    return [kept[n] for n in evenly(len(kept), most)]


def _jpeg(frame: Any, max_side: int) -> bytes:
    pixels = frame.to_ndarray(format="rgb24")
    turns = round(getattr(frame, "rotation", 0) / 90) % 4
    image = Picture.fromarray(np.rot90(pixels, turns) if turns else pixels)
    image.thumbnail((max_side, max_side))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=92)
    return file.getvalue()


def _bad(message: str) -> BadInput:
    return BadInput(message, where="video_url", param="messages")
