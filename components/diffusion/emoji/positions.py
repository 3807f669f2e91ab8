"""Tells the transformer where each latent stands, as extra input channels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SPACE_WAVES, TIME_WAVES = 5, 3
CHANNELS = 2 * SPACE_WAVES + TIME_WAVES


def with_positions(latents: Tensor) -> Tensor:
    """Latents (N, C, F, H, W) with CHANNELS more: cosines of row, column and, in clips, frame.

    Wan's rotary embedding knows only how far apart two latents are. A picture that is to stand in
    the middle of its frame, or a clip that is to start at the bottom, needs to know where it is.
    """
    count, _, frames, height, width = latents.shape
    shape = (count, -1, frames, height, width)
    rows = _waves(height, SPACE_WAVES).view(1, SPACE_WAVES, 1, height, 1)
    columns = _waves(width, SPACE_WAVES).view(1, SPACE_WAVES, 1, 1, width)
    times = _waves(frames, TIME_WAVES).view(1, TIME_WAVES, frames, 1, 1)
    if frames == 1:
        times = torch.zeros_like(times)
    parts = [part.to(latents).expand(shape) for part in (rows, columns, times)]
    return torch.cat([latents, *parts], dim=1)


def _waves(length: int, count: int) -> Tensor:
    """The first `count` cosines of the discrete cosine transform but the constant one."""
    place = (torch.arange(length) + 0.5) / length
    return torch.stack([torch.cos(math.pi * wave * place) for wave in range(1, count + 1)])
