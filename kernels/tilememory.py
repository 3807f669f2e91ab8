"""How many bytes a tile's decode needs at its peak, and the largest tile that fits a budget.

A convolutional decoder is widest where resolution and channels are both high, and how many tensors
of that size live at once depends on the place: on entering a level its input, the normalised copy
and the activation; inside it also the level's own input and the two steps of the residual sum. The
largest of these is the estimate; the tests measure it against real decodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .tiles import Tiling

ENTRY_LIVE = 3
INSIDE_LIVE = 5


@dataclass(frozen=True, slots=True)
class Layer:
    """Channels at `scale` times the latent's resolution and `frame_scale` times its frames, and
    how many tensors of that size are alive there.
    """

    channels: int
    scale: int
    frame_scale: int
    live: int


def decoder_layers(
    block_out_channels: Sequence[int], temporal: Sequence[bool] = ()
) -> tuple[Layer, ...]:
    """Layers of a decoder that doubles the resolution between blocks, narrowing as it grows.

    `block_out_channels` as in diffusers' configs (finest first); `temporal` says which of the
    doublings, coarsest first, double the frames too.
    """
    widths = list(reversed(block_out_channels))
    scale, frames = 1, 1
    layers: list[Layer] = []
    for place, channels in enumerate(widths):
        layers.append(Layer(channels, scale, frames, INSIDE_LIVE))
        if place + 1 < len(widths):
            scale *= 2
            frames *= 2 if place < len(temporal) and temporal[place] else 1
            layers.append(Layer(channels, scale, frames, ENTRY_LIVE))
    return tuple(layers)


def decode_bytes(
    layers: Sequence[Layer],
    height: int,
    width: int,
    frames: int = 1,
    dtype_bytes: int = 2,
    batch: int = 1,
) -> int:
    """Peak bytes of activations for a latent of this size, weights not counted."""
    values = [one.scale**2 * one.frame_scale * one.channels * one.live for one in layers]
    return max(values) * height * width * frames * batch * dtype_bytes


def fit_tiling(
    layers: Sequence[Layer],
    budget_bytes: int,
    halo: int,
    blend: int,
    frames: int = 1,
    dtype_bytes: int = 2,
    batch: int = 1,
) -> Tiling:
    """The largest square tile whose decode, halo included, stays within the budget."""

    def needed(size: int) -> int:
        side = size + 2 * halo
        return decode_bytes(layers, side, side, frames, dtype_bytes, batch)

    smallest = max(2 * blend, 1)
    if needed(smallest) > budget_bytes:
        raise ValueError(
            f"fit_tiling: the smallest tile, {smallest} latent pixels and a halo of {halo}, needs "
            f"{needed(smallest)} bytes; the budget is {budget_bytes}"
        )
    size = smallest
    while needed(size + 1) <= budget_bytes:
        size += 1
    return Tiling(size, halo, blend)
