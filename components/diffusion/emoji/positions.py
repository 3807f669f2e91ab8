"""Tells the transformer where each latent stands on the thing that it draws, as input channels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .scene import Pose

WAVES = 5
CHANNELS = 2 * WAVES + 6
_REACH = 1.6


def with_positions(latents: Tensor, path: Pose | None = None) -> Tensor:
    """Latents (N, C, F, H, W) with CHANNELS more: each latent's place on the thing, and its pose.

    `path` has fields of shape (N, F); without one the thing fills every frame, upright. A
    latent's place is where it would be in a picture of the thing alone: moving, scaling and
    turning a thing then means to draw the same thing at other places.
    """
    count, _, frames, height, width = latents.shape
    shape = (count, frames, height, width)
    if path is None:
        path = Pose.still(count * frames)
    x, y, size, degrees = (
        field.to(latents.device, torch.float32).reshape(count, frames, 1, 1)
        for field in (path.x, path.y, path.size, path.degrees)
    )
    turn = torch.deg2rad(degrees)
    cos, sin = torch.cos(turn), torch.sin(turn)
    right = _centres(width).to(latents.device).view(1, 1, 1, width) - x
    down = _centres(height).to(latents.device).view(1, 1, height, 1) - y
    across = (cos * right + sin * down) / size
    along = (-sin * right + cos * down) / size
    inside = ((across.abs() <= 1) & (along.abs() <= 1)).float()
    planes = [*_waves(along), *_waves(across)]
    planes += [across.clamp(-_REACH, _REACH), along.clamp(-_REACH, _REACH), inside]
    planes += [cos - 1, sin, size.log()]
    channels = torch.stack([plane.expand(shape) for plane in planes], dim=1)
    return torch.cat([latents, channels.to(latents)], dim=1)


def _centres(length: int) -> Tensor:
    return (torch.arange(length) + 0.5) / length * 2 - 1


def _waves(place: Tensor) -> list[Tensor]:
    """The first cosines of the discrete cosine transform but the constant one."""
    within = (place.clamp(-1, 1) + 1) / 2
    return [torch.cos(math.pi * wave * within) for wave in range(1, WAVES + 1)]
