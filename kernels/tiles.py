"""Decode a latent picture or clip tile by tile, on one rank or many, within a memory budget.

A tile is decoded with a halo of its neighbours' latents that is cut off afterwards: where the
decoder sees no further than the halo, the result is that of one whole decode. What lies beyond
(group norms, attention over the picture) differs a little from tile to tile, so neighbours also
overlap and are blended along a linear ramp.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .parallel import Group, Traffic, gather

Decode = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes in latent pixels: a tile's side, the context cut off, the overlap that is blended."""

    size: int
    halo: int
    blend: int

    def __post_init__(self) -> None:
        if self.halo < 0 or self.blend < 0 or self.size < 1:
            raise ValueError(f"tiling: sizes must not be negative, got {self}")
        if self.blend * 2 > self.size:
            raise ValueError(f"tiling.blend: {self.blend} is over half of size {self.size}")


@dataclass(frozen=True, slots=True)
class Span:
    """One tile along one axis: [start, stop) is kept, [outer_start, outer_stop) is decoded."""

    start: int
    stop: int
    outer_start: int
    outer_stop: int


def spans(length: int, tiling: Tiling) -> list[Span]:
    """Tiles that cover `length`, each `size` long, overlapping by at least `blend`."""
    step = max(tiling.size - tiling.blend, 1)
    return [_span(start, length, tiling) for start in range(0, max(length - tiling.blend, 1), step)]


def _span(start: int, length: int, tiling: Tiling) -> Span:
    stop = min(start + tiling.size, length)
    return Span(start, stop, max(start - tiling.halo, 0), min(stop + tiling.halo, length))


def tiled_decode(
    decode: Decode,
    latents: Tensor,
    tiling: Tiling,
    upscale: int,
    group: Group | None = None,
    traffic: Traffic | None = None,
) -> Tensor:
    """Decode (batch, channels, [frames,] height, width); `upscale` is pixels per latent pixel.

    With a group, rank r decodes tiles r, r + size, ... and every rank gets the whole picture.
    `decode` may change the channels and frames, the same for every tile.
    """
    boxes = _boxes(latents, tiling)
    if group is None or group.size == 1:
        tiles = (_decode_box(decode, latents, box, upscale) for box in boxes)
        return _assemble(tiles, boxes, latents, tiling, upscale)
    own = boxes[group.rank :: group.size]
    # A rank without a tile would idle: it decodes the first one to learn the shape of the result.
    mine = [_decode_box(decode, latents, box, upscale) for box in own or boxes[:1]]
    shapes = [mine[0].shape[:-2] + _pixels(box, upscale) for box in boxes]
    by_rank = [shapes[rank :: group.size] for rank in range(group.size)]
    sizes = [sum(shape.numel() for shape in own_shapes) for own_shapes in by_rank]
    flat = torch.cat([tile.reshape(-1) for tile in mine])[: sizes[group.rank]]
    parts = torch.split(gather(flat, 0, group, sizes, traffic), sizes)
    everyones = [_cut(part, wanted) for part, wanted in zip(parts, by_rank, strict=True)]
    ordered = (everyones[i % group.size][i // group.size] for i in range(len(boxes)))
    return _assemble(ordered, boxes, latents, tiling, upscale)


def _cut(flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    pieces = torch.split(flat, [shape.numel() for shape in shapes]) if shapes else ()
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _pixels(box: "Box", upscale: int) -> torch.Size:
    return torch.Size([(span.stop - span.start) * upscale for span in box])


Box = tuple[Span, Span]


def _boxes(latents: Tensor, tiling: Tiling) -> list[Box]:
    rows, cols = spans(latents.shape[-2], tiling), spans(latents.shape[-1], tiling)
    return [(row, col) for row in rows for col in cols]


def _decode_box(decode: Decode, latents: Tensor, box: Box, upscale: int) -> Tensor:
    row, col = box
    part = latents[..., row.outer_start : row.outer_stop, col.outer_start : col.outer_stop]
    out = decode(part)
    want = (part.shape[-2] * upscale, part.shape[-1] * upscale)
    if tuple(out.shape[-2:]) != want:
        raise ValueError(f"tiled_decode: decode gave {tuple(out.shape[-2:])} pixels, not {want}")
    top, left = (row.start - row.outer_start) * upscale, (col.start - col.outer_start) * upscale
    height, width = (row.stop - row.start) * upscale, (col.stop - col.start) * upscale
    return out[..., top : top + height, left : left + width]


def _assemble(
    tiles: Iterable[Tensor], boxes: Sequence[Box], latents: Tensor, tiling: Tiling, upscale: int
) -> Tensor:
    """Add the tiles with weights that sum to one at every pixel."""
    height, width = latents.shape[-2:]
    picture: Tensor | None = None
    for tile, (row, col) in zip(tiles, boxes, strict=True):
        if picture is None:
            picture = tile.new_zeros((*tile.shape[:-2], height * upscale, width * upscale))
        down = _ramp(row, height, tiling, upscale, tile)[:, None]
        across = _ramp(col, width, tiling, upscale, tile)
        rows = slice(row.start * upscale, row.stop * upscale)
        cols = slice(col.start * upscale, col.stop * upscale)
        picture[..., rows, cols] += tile * (down * across).to(tile.dtype)
    if picture is None:
        raise ValueError(f"tiled_decode: latents {tuple(latents.shape)} hold no pixel")
    return picture


def _ramp(span: Span, length: int, tiling: Tiling, upscale: int, like: Tensor) -> Tensor:
    """Weights along one axis: rising where a tile comes before, falling where one comes after."""
    pixels = (span.stop - span.start) * upscale
    weights = torch.ones(pixels, device=like.device)
    blended = tiling.blend * upscale
    rise = (torch.arange(blended, device=like.device) + 0.5) / max(blended, 1)
    if span.start > 0 and blended:
        weights[:blended] = rise
    if span.stop < length and blended:
        weights[pixels - blended :] = 1 - rise
    return weights
