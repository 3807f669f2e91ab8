"""Frames of pictures: requests for images and clips, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .base import Frame, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Image(Frame):
    """A picture, uint8 of shape (height, width, 3). `preview` marks one that isn't final."""

    pixels: Tensor
    index: int = 0
    preview: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class VideoClip(Frame):
    """A clip, uint8 of shape (frames, height, width, 3)."""

    pixels: Tensor
    fps: float
    index: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Generate(Frame):
    """A request for pictures or a clip. None leaves a setting to the pipeline file.

    `width` and `height` in pixels; `frames` above 1 asks for a clip; `options` holds what only
    some models have (the names are in the component's options). `image` starts image-to-image.
    """

    prompt: str
    negative_prompt: str | None = None
    count: int = 1
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    fps: float | None = None
    steps: int | None = None
    guidance: float | None = None
    seed: int | None = None
    image: bytes | None = None
    strength: float | None = None
    previews: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
