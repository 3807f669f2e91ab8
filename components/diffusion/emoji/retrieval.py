"""Finds which training picture a generated one is nearest to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

_COMPARE_PX = 32


class Gallery:
    """The training pictures with their names, compared at 32 x 32 pixels."""

    def __init__(self, names: Sequence[str], frames: Tensor) -> None:
        """`frames` (N, 3, H, W) in [0, 1], one for each name."""
        self.names = list(names)
        self._rows = _small(frames)

    def ranks(self, pictures: Tensor, names: Sequence[str]) -> list[int]:
        """For each picture (M, 3, H, W) the place, from 0, of its own name by distance."""
        distance = torch.cdist(_small(pictures), self._rows)
        own = torch.tensor([self.names.index(name) for name in names])
        at = distance.gather(1, own[:, None])
        return cast("list[int]", (distance < at).sum(dim=1).numpy().tolist())

    def nearest(self, pictures: Tensor) -> list[str]:
        """The name of the nearest training picture of each picture."""
        chosen = torch.cdist(_small(pictures), self._rows).argmin(dim=1)
        return [self.names[int(index)] for index in chosen]


def _small(frames: Tensor) -> Tensor:
    return adaptive_avg_pool2d(frames.float(), _COMPARE_PX).flatten(1)
