"""Draws glyphs into square frames on white: placed, scaled, turned and recoloured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

FRAME_PX = 96
_SUPERSAMPLE = 2


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a glyph stands: centre in [-1, 1] (y down), size relative to the frame, clockwise turn.

    Each field has one value per frame, shape (F,).
    """

    x: Tensor
    y: Tensor
    size: Tensor
    degrees: Tensor

    @staticmethod
    def still(frames: int = 1, size: float = 1.0) -> Pose:
        zero = torch.zeros(frames)
        return Pose(zero, zero, torch.full((frames,), size), zero)


def to_tensor(pictures: NDArray[np.uint8]) -> Tensor:
    """Premultiplied RGBA in [0, 1], shape (N, 4, H, W), from straight uint8 (N, H, W, 4)."""
    rgba = torch.tensor(pictures).permute(0, 3, 1, 2).float() / 255
    return torch.cat([rgba[:, :3] * rgba[:, 3:], rgba[:, 3:]], dim=1)


def render(pictures: Tensor, pose: Pose) -> Tensor:
    """Frames in [-1, 1], shape (F, 3, FRAME_PX, FRAME_PX); one picture is repeated for all frames.

    `pictures` is premultiplied RGBA (F or 1, 4, H, W). Drawn at twice the size, then averaged,
    so that a shrunk glyph does not alias.
    """
    frames = pose.x.shape[0]
    turn = torch.deg2rad(pose.degrees)
    cos, sin = torch.cos(turn) / pose.size, torch.sin(turn) / pose.size
    # Sampling needs the inverse map: from a place in the frame to a place in the glyph.
    row_x = torch.stack([cos, sin, -(cos * pose.x + sin * pose.y)], dim=1)
    row_y = torch.stack([-sin, cos, -(-sin * pose.x + cos * pose.y)], dim=1)
    side = FRAME_PX * _SUPERSAMPLE
    grid = functional.affine_grid(
        torch.stack([row_x, row_y], dim=1), [frames, 4, side, side], align_corners=False
    )
    source = pictures.expand(frames, -1, -1, -1)
    drawn = functional.grid_sample(source, grid, mode="bilinear", align_corners=False)
    drawn = functional.avg_pool2d(drawn, _SUPERSAMPLE)
    return (drawn[:, :3] + 1 - drawn[:, 3:]).clamp(0, 1) * 2 - 1


HUES = {
    "red": 0.0,
    "orange": 0.085,
    "yellow": 0.15,
    "green": 0.33,
    "blue": 0.6,
    "purple": 0.77,
    "pink": 0.92,
}
GREYS = {"black": 0.25, "white": 0.0}
COLOURS = (*HUES, *GREYS)
_HUE_REACH = 0.11


def dominant_hue(picture: NDArray[np.uint8]) -> float | None:
    """The hue in [0, 1) that most saturated pixels of a straight RGBA picture share, or None.

    None where less than a sixth of the glyph is coloured or no hue holds half of what is.
    """
    hsv = np.asarray(Image.fromarray(picture[..., :3]).convert("HSV")).astype(np.float32) / 255
    shown = picture[..., 3] > 127
    vivid = shown & (hsv[..., 1] > 0.35) & (hsv[..., 2] > 0.25)
    if vivid.sum() < shown.sum() / 6:
        return None
    counts, edges = np.histogram(hsv[..., 0][vivid], bins=36, range=(0, 1))
    padded = np.concatenate([counts[-1:], counts, counts[:1]])
    smooth = padded[:-2] + padded[1:-1] + padded[2:]
    peak = int(smooth.argmax())
    hue = float((edges[peak] + edges[peak + 1]) / 2)
    near = _hue_distance(hsv[..., 0], hue) < _HUE_REACH
    return hue if (vivid & near).sum() >= vivid.sum() / 2 else None


def recolour(picture: NDArray[np.uint8], hue: float, colour: str) -> NDArray[np.uint8]:
    """A straight RGBA picture whose pixels near `hue` take one of COLOURS; the others stay."""
    hsv = np.asarray(Image.fromarray(picture[..., :3]).convert("HSV")).astype(np.float32) / 255
    near = (_hue_distance(hsv[..., 0], hue) < _HUE_REACH) & (hsv[..., 1] > 0.15)
    new = hsv.copy()
    if colour in HUES:
        new[..., 0] = (hsv[..., 0] - hue + HUES[colour]) % 1
        if colour == "pink":
            new[..., 1], new[..., 2] = hsv[..., 1] * 0.55, hsv[..., 2] * 0.4 + 0.6
        elif colour == "yellow":
            new[..., 2] = hsv[..., 2] * 0.4 + 0.6
    else:
        new[..., 1] = hsv[..., 1] * 0.08
        dark = colour == "black"
        new[..., 2] = hsv[..., 2] * 0.32 if dark else hsv[..., 2] * 0.3 + 0.68
    hsv = np.where(near[..., None], new, hsv)
    rgb = Image.fromarray((hsv.clip(0, 1) * 255).round().astype(np.uint8), "HSV").convert("RGB")
    return np.dstack([np.asarray(rgb), picture[..., 3]])


def colour_of(hue: float) -> str:
    """The colour word of HUES that is nearest to a hue."""
    return min(HUES, key=lambda word: float(_hue_distance(hue, HUES[word])))


def _hue_distance(hue: NDArray[np.floating] | float, other: float) -> NDArray[np.float32]:
    apart = np.abs(np.asarray(hue) - other) % 1
    return np.minimum(apart, 1 - apart).astype(np.float32)
