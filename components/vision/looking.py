"""How each family prepares a picture: what it costs at which size, and the processor's settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from ..pixels import Size
from ..vlm import Family

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Looking:
    """Costs and settings of one model.

    `unit` is the side of the square of pixels that makes one token (qwen), or of one tile of
    `tile_tokens` (idefics). `fewest` and `most` are the processor's own bounds: pixels for qwen,
    the longest edge for idefics; `fixed` what every picture costs where nothing can be chosen.
    """

    family: Family
    unit: int = 28
    tile_tokens: int = 1
    fewest: int = 1
    most: int = 1
    fixed: int = 0

    def natural(self, size: Size) -> int:
        """Tokens of a picture at the processor's own settings."""
        if self.family == "qwen":
            return self._squares(size)
        if self.family == "idefics":
            return self._tiled(size, self.most)
        return self.fixed

    def _squares(self, size: Size) -> int:
        """Tokens when both sides become multiples of `unit`, within the processor's bounds."""
        sides = (size.height, size.width)
        across = [max(1, round(side / self.unit)) for side in sides]
        area, unit = size.height * size.width, self.unit**2
        if math.prod(across) * unit > self.most:
            shrink = math.sqrt(area / self.most)
            across = [max(1, math.floor(side / shrink / self.unit)) for side in sides]
        elif math.prod(across) * unit < self.fewest:
            grow = math.sqrt(self.fewest / area)
            across = [math.ceil(side * grow / self.unit) for side in sides]
        return math.prod(across)

    def _tiled(self, size: Size, edge: int) -> int:
        """Tokens when the longer side becomes `edge`: tiles, and the whole once more."""
        long, short = max(size.width, size.height), min(size.width, size.height)
        across = max(1, math.ceil(edge / self.unit))
        down = max(1, math.ceil(round(edge * short / long) / self.unit))
        tiles = across * down
        return self.tile_tokens * (tiles + 1 if tiles > 1 else 1)

    def settings(self, size: Size, tokens: int) -> Settings:
        """The processor's arguments so that a picture takes at most `tokens` (or the least it can).

        Empty where the processor's own settings do.
        """
        if tokens >= self.natural(size):
            return {}
        if self.family == "qwen":
            most = min(self.most, max(tokens, 1) * self.unit**2)
            return {"size": {"shortest_edge": 1, "longest_edge": most}}
        if self.family == "idefics":
            edges = range(self.most // self.unit, 1, -1)
            fits = (n for n in edges if self._tiled(size, n * self.unit) <= tokens)
            split = next(fits, 0)
            if not split:
                return {"do_image_splitting": False}
            return {"size": {"longest_edge": split * self.unit}, "do_image_splitting": True}
        return {}

    @property
    def least(self) -> int:
        """Tokens of the smallest picture that makes sense."""
        return {"qwen": 4, "idefics": self.tile_tokens}.get(self.family, self.fixed)


def looking_of(family: Family, processor: Any, config: Any) -> Looking:
    """The costs that a model's processor and configuration imply."""
    vision = config.vision_config
    if family == "qwen":
        unit = int(processor.patch_size) * int(processor.merge_size)
        return Looking(
            family,
            unit,
            fewest=int(processor.size["shortest_edge"]),
            most=int(processor.size["longest_edge"]),
        )
    if family == "idefics":
        tile = int(processor.max_image_size["longest_edge"])
        side = int(vision.image_size) // int(vision.patch_size)
        tokens = side**2 // int(config.scale_factor) ** 2
        split = bool(processor.do_image_splitting)
        most = int(processor.size["longest_edge"]) if split else tile
        return Looking(family, tile, tokens, most=max(most, tile))
    side = int(vision.image_size) // int(vision.patch_size)
    whole = side**2 + (config.vision_feature_select_strategy == "full")
    tiles = 1
    if family == "llava_next":
        points = cast("list[list[int]]", config.image_grid_pinpoints)
        side_px = int(vision.image_size)
        tiles = 1 + max((h // side_px) * (w // side_px) for h, w in points)
    return Looking(family, fixed=whole * tiles)
