"""One picture or clip that a run makes: what was asked, where its news go, what came out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image as Picture

from .caching import CacheOptions
from .skip import GuidanceOptions

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Shape:
    """What pictures of one run have in common. None leaves it to the pipeline's own default.

    A `strength` that wasn't `insisted` on is left out where a pipeline has none.
    """

    width: int | None
    height: int | None
    frames: int | None
    fps: float | None
    steps: int | None
    guidance: float | None
    strength: float | None = None
    insisted: bool = False
    cache_kind: str | None = None


@dataclass(slots=True, eq=False)
class Shot:
    """One row of a run's batch. `previews` pictures on the way go to `on_preview`.

    `on_step` and `on_preview` are called in the engine's thread. Setting `gone` ends the work.
    """

    prompt: str
    negative: str | None
    seed: int
    shape: Shape
    guidance_skip: GuidanceOptions
    cache: CacheOptions | None = None
    image: Picture | None = None
    previews: int = 0
    on_step: Callable[[int, int], None] = lambda done, total: None
    on_preview: Callable[[int, Pixels], None] = lambda number, pixels: None
    gone: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Made:
    """Frames of a shot, uint8 (frames, height, width, 3), and what they cost."""

    pixels: Pixels
    meta: dict[str, Any]
