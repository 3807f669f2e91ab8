"""What a vision encoder and its language model agree on: families, placeholders, grids.

The encoder says of each picture what its rows are (`Picture`), the language model writes as many
placeholders into its prompt. `FAMILIES` are the architectures that were tried, split against whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from .errors import BadInput, MissingRequirement
from .frames import Embedding
from .frames.base import Tensor

Family = Literal["qwen", "idefics", "llava", "llava_next"]
FAMILIES: dict[str, Family] = {
    "qwen2_vl": "qwen",
    "qwen2_5_vl": "qwen",
    "idefics3": "idefics",
    "smolvlm": "idefics",
    "llava": "llava",
    "llava_next": "llava_next",
}

FAKE, WHOLE = "<fake_token_around_image>", "<global-img>"


def family_of(model_type: str) -> Family:
    """The family of an architecture.

    Raises:
        MissingRequirement: it isn't one of those that are known to be right.
    """
    if model_type not in FAMILIES:
        raise MissingRequirement(
            f"vision models of type {model_type!r} are not possible; known: {', '.join(FAMILIES)}",
            where="model",
        )
    return FAMILIES[model_type]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture as a language model reads it: `rows` of shape (tokens, dim).

    `grid` is (time, height, width) in patches, for 3D positions; `tiles` (rows, columns) of one
    that was cut up, (0, 0) for one that wasn't.
    """

    rows: Tensor
    grid: tuple[int, int, int] = (1, 0, 0)
    tiles: tuple[int, int] = (0, 0)
    dtype: str = "float32"

    @property
    def tokens(self) -> int:
        """How many placeholders it takes."""
        return len(self.rows)

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        return int(self.rows.nbytes)

    def embedding(self, index: int, model: str) -> Embedding:
        """As a frame; numpy has no bfloat16, which travels as its bits."""
        meta = {
            "grid": list(self.grid),
            "tiles": list(self.tiles),
            "dtype": self.dtype,
            "model": model,
        }
        return Embedding(self.rows, index, self.tokens, meta)


def picture_of(frame: Embedding, *, width: int, model: str, where: str) -> Picture:
    """The picture in a frame.

    Raises:
        BadInput: its rows aren't `width` wide, or another kind of model made them.
    """
    meta: Mapping[str, Any] = frame.meta
    made_by = meta.get("model")
    shape = np.shape(frame.vector)
    if made_by != model or len(shape) != 2 or shape[1] != width:
        raise BadInput(
            f"picture {frame.index} has embeddings of {made_by!r}, shape {shape}; this model,"
            f" {model!r}, takes rows of {width}: give both nodes the same model",
            where=where,
        )
    grid = cast("tuple[int, int, int]", tuple(meta["grid"]))
    tiles = cast("tuple[int, int]", tuple(meta["tiles"]))
    return Picture(frame.vector, grid, tiles, str(meta["dtype"]))


def placeholders(family: Family, picture: Picture, token: str) -> str:
    """What stands in the prompt for the one placeholder that the chat template wrote."""
    if family != "idefics":
        return token * picture.tokens
    down, across = picture.tiles
    each = token * (picture.tokens // (down * across + 1))
    lines = [
        "".join(f"{FAKE}<row_{y + 1}_col_{x + 1}>{each}" for x in range(across)) + "\n"
        for y in range(down)
    ]
    return f"{''.join(lines)}{chr(10) if lines else ''}{FAKE}{WHOLE}{each}{FAKE}"
