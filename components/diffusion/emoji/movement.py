"""Measures what moves in a clip: the path, size and turning of the one thing on white."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

_TURN_STEP_DEGREES = 4.0
_TURN_REACH = 12
_COMPARE_PX = 64


@dataclass(frozen=True, slots=True)
class Movement:
    """Per frame: centre x and y in [-1, 1] (y down), size (1 fills the frame), degrees turned.

    `degrees` counts clockwise from the first frame on.
    """

    x: Tensor
    y: Tensor
    size: Tensor
    degrees: Tensor


def measure(frames: Tensor) -> Movement:
    """The movement in frames (F, 3, H, W) with values in [0, 1] on a white ground."""
    ink = _ink(frames)
    total = ink.sum(dim=(1, 2)).clamp(min=1e-6)
    side = ink.shape[-1]
    place = (torch.arange(side) + 0.5) / side * 2 - 1
    x = (ink.sum(dim=1) * place).sum(dim=1) / total
    y = (ink.sum(dim=2) * place).sum(dim=1) / total
    offset_x = place[None, None, :] - x[:, None, None]
    offset_y = place[None, :, None] - y[:, None, None]
    # The standard deviation of a square that fills the frame is 1 / sqrt(3) along each axis.
    spread = (ink * (offset_x.square() + offset_y.square())).sum(dim=(1, 2)) / total
    size = (spread * 1.5).sqrt()
    return Movement(x, y, size, _turning(_centred(frames, x, y, size)))


def motion_shown(movement: Movement) -> set[str]:
    """Names from motion.MOTIONS that the movement fits; several may fit, or none."""
    shown: set[str] = set()
    across, along = _shift(movement.x), _shift(movement.y)
    ratio = float(movement.size[-3:].mean() / movement.size[:3].mean())
    turned = float(movement.degrees[-1])
    if abs(along) > 0.25 and abs(along) > 2 * abs(across):
        shown.add("down" if along > 0 else "up")
    if abs(across) > 0.25 and abs(across) > 2 * abs(along):
        shown.add("right" if across > 0 else "left")
    if ratio > 1.35:
        shown.add("grow")
    if ratio < 1 / 1.35:
        shown.add("shrink")
    if abs(turned) > 150:
        shown.add("spin" if turned > 0 else "spin back")
    if _turns_back(movement.x, 0.05) >= 4 and _turns_back(movement.y, 0.05) < 4:
        shown.add("shake")
    if _turns_back(movement.y, 0.12) >= 2 and float(movement.x.std()) < float(movement.y.std()):
        shown.add("bounce")
    if _turns_back(movement.degrees, 15.0) >= 2 and abs(turned) < 90:
        shown.add("swing")
    if _turns_back(movement.size / movement.size.mean(), 0.12) >= 2:
        shown.add("pulse")
    return shown


def _ink(frames: Tensor) -> Tensor:
    """How far each pixel is from white, (F, H, W); faint noise counts as none."""
    far = (1 - frames).amax(dim=1)
    return torch.where(far > 0.12, far, 0.0).sqrt()


def _shift(path: Tensor) -> float:
    return float(path[-3:].mean() - path[:3].mean())


def _turns_back(path: Tensor, least: float) -> int:
    """How often the path changes direction after having gone at least `least` one way."""
    turns, heading = 0, 0
    furthest = float(path[0])
    low = high = furthest
    for value in map(float, path):
        if heading == 0:
            low, high = min(low, value), max(high, value)
            if value - low > least or high - value > least:
                heading = 1 if value - low > least else -1
                furthest = value
        elif (value - furthest) * heading > 0:
            furthest = value
        elif (furthest - value) * heading > least:
            turns, heading, furthest = turns + 1, -heading, value
    return turns


def _centred(frames: Tensor, x: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """The thing of each frame cut out and brought to one size, (F, 3, 64, 64)."""
    reach = size * 1.25
    zero = torch.zeros_like(x)
    theta = torch.stack(
        [torch.stack([reach, zero, x], dim=1), torch.stack([zero, reach, y], dim=1)], dim=1
    )
    grid = functional.affine_grid(
        theta, [len(frames), 3, _COMPARE_PX, _COMPARE_PX], align_corners=False
    )
    return 1 - functional.grid_sample(1 - frames, grid, align_corners=False)


def _turning(frames: Tensor) -> Tensor:
    """Degrees turned since the first frame: the sum of the best small turns between neighbours."""
    steps = torch.arange(-_TURN_REACH, _TURN_REACH + 1) * _TURN_STEP_DEGREES
    angle = torch.deg2rad(steps)
    cos, sin, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    theta = torch.stack(
        [torch.stack([cos, sin, zero], dim=1), torch.stack([-sin, cos, zero], dim=1)], dim=1
    )
    shape = [len(steps), 3, _COMPARE_PX, _COMPARE_PX]
    grid = functional.affine_grid(theta, shape, align_corners=False)
    turned = [torch.zeros(())]
    for before, after in pairwise(frames):
        source = (1 - before).expand(len(steps), -1, -1, -1)
        error = (functional.grid_sample(source, grid, align_corners=False) - (1 - after)).square()
        turned.append(steps[error.mean(dim=(1, 2, 3)).argmin()])
    return torch.stack(turned).cumsum(0)
