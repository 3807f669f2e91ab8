"""The motions that a clip can show: the words that ask for one and the path it takes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .scene import Pose

CLIP_FRAMES = 16

# Words after the thing ("a ball ...") first, then words that may stand before it ("a ... ball").
PHRASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "up": (
        (
            "moving up",
            "flying up",
            "going up",
            "rising",
            "floating upwards",
            "moving upwards",
            "taking off",
            "lifting off",
            "flying into the sky",
            "rising up",
        ),
        ("rising",),
    ),
    "down": (
        (
            "moving down",
            "falling down",
            "going down",
            "falling",
            "sinking",
            "dropping",
            "moving downwards",
            "flying down",
            "descending",
        ),
        ("falling", "sinking"),
    ),
    "left": (
        (
            "moving left",
            "going left",
            "moving to the left",
            "flying left",
            "driving left",
            "sliding left",
            "flying to the left",
            "driving to the left",
            "running left",
            "walking to the left",
            "swimming left",
        ),
        (),
    ),
    "right": (
        (
            "moving right",
            "going right",
            "moving to the right",
            "flying right",
            "driving right",
            "sliding right",
            "flying to the right",
            "driving to the right",
            "running right",
            "walking to the right",
            "swimming right",
        ),
        (),
    ),
    "grow": (
        (
            "growing",
            "getting bigger",
            "coming closer",
            "growing bigger",
            "becoming larger",
            "getting larger",
            "expanding",
            "zooming in",
        ),
        ("growing", "expanding"),
    ),
    "shrink": (
        ("shrinking", "getting smaller", "going away", "becoming smaller", "zooming out"),
        ("shrinking",),
    ),
    "spin": (
        (
            "spinning",
            "rotating",
            "turning",
            "spinning around",
            "turning around",
            "rotating clockwise",
            "spinning clockwise",
            "twirling",
        ),
        ("spinning", "rotating", "turning"),
    ),
    "spin back": (
        (
            "spinning counterclockwise",
            "rotating counterclockwise",
            "turning counterclockwise",
            "spinning anticlockwise",
            "spinning backwards",
        ),
        (),
    ),
    "shake": (
        ("shaking", "trembling", "vibrating", "shivering", "quaking"),
        ("shaking", "trembling", "vibrating"),
    ),
    "bounce": (
        ("bouncing", "jumping", "hopping", "jumping up and down", "bouncing up and down"),
        ("bouncing", "jumping", "hopping"),
    ),
    "swing": (
        ("swinging", "rocking", "swaying", "rocking from side to side", "dancing"),
        ("swinging", "rocking", "swaying", "dancing"),
    ),
    "pulse": (
        ("pulsing", "beating", "throbbing", "breathing"),
        ("pulsing", "beating", "throbbing"),
    ),
    "roll right": (("rolling to the right", "rolling right", "rolling"), ("rolling",)),
    "roll left": (("rolling to the left", "rolling left"), ()),
    "still": (("standing still", "not moving", "staying still", ""), ("motionless",)),
}
MOTIONS = tuple(PHRASES)
RARE = ("spin back", "pulse", "roll right", "roll left", "still")
TURNING = ("spin", "spin back", "swing", "roll right", "roll left")
# A turning thing looks different in every frame, and so takes more examples than a shifted one.
WEIGHTS = [(0.4 if name in RARE else 1.0) * (2.0 if name in TURNING else 1.0) for name in MOTIONS]


@dataclass(frozen=True, slots=True)
class Moment:
    """Numbers along the clip, each of shape (F,): time in [0, 1] and jitter in [0.9, 1.1]."""

    time: Tensor
    strength: float

    def wave(self, cycles: float) -> Tensor:
        return torch.sin(2 * math.pi * cycles * self.time) * self.strength


def pose(motion: str, rng: random.Random, frames: int = CLIP_FRAMES) -> Pose:
    """The path of one clip, with small random differences in size, place and strength."""
    moment = Moment(torch.linspace(0, 1, frames), rng.uniform(0.9, 1.1))
    size = rng.uniform(0.54, 0.62)
    path = _PATHS[motion](moment, size)
    return Pose(
        path.x + rng.uniform(-0.04, 0.04),
        path.y + rng.uniform(-0.04, 0.04),
        path.size,
        path.degrees,
    )


def _path(
    moment: Moment,
    size: float,
    x: Tensor | None = None,
    y: Tensor | None = None,
    scale: Tensor | None = None,
    degrees: Tensor | None = None,
) -> Pose:
    zero = torch.zeros_like(moment.time)
    return Pose(
        zero if x is None else x,
        zero if y is None else y,
        size + zero if scale is None else scale,
        zero if degrees is None else degrees,
    )


def _travel(moment: Moment) -> Tensor:
    return (2 * moment.time - 1) * 0.38 * moment.strength


def _growth(moment: Moment) -> Tensor:
    return 0.3 + 0.62 * moment.time * moment.strength


def _jump(moment: Moment) -> Tensor:
    return 0.3 - 0.6 * moment.wave(1.0).abs()


_PATHS: dict[str, Callable[[Moment, float], Pose]] = {
    "up": lambda m, s: _path(m, s, y=-_travel(m)),
    "down": lambda m, s: _path(m, s, y=_travel(m)),
    "left": lambda m, s: _path(m, s, x=-_travel(m)),
    "right": lambda m, s: _path(m, s, x=_travel(m)),
    "grow": lambda m, s: _path(m, s, scale=_growth(m)),
    "shrink": lambda m, s: _path(m, s, scale=_growth(m).flip(0)),
    "spin": lambda m, s: _path(m, s + 0.1, degrees=360 * m.time * m.strength),
    "spin back": lambda m, s: _path(m, s + 0.1, degrees=-360 * m.time * m.strength),
    "shake": lambda m, s: _path(m, s + 0.1, x=0.12 * m.wave(3.75)),
    "bounce": lambda m, s: _path(m, s, y=_jump(m)),
    "swing": lambda m, s: _path(m, s + 0.1, degrees=28 * m.wave(1.0)),
    "pulse": lambda m, s: _path(m, s, scale=s + 0.05 + 0.13 * m.wave(2.0)),
    "roll right": lambda m, s: _path(m, s, x=_travel(m), degrees=360 * m.time),
    "roll left": lambda m, s: _path(m, s, x=-_travel(m), degrees=-360 * m.time),
    "still": lambda m, s: _path(m, s + 0.2),
}
