"""8-bit number formats: saturating casts and the groups of rows that share a scale.

FP8 is E4M3 (largest value 448, no infinity). The groups are those of SageAttention 2 (arXiv
2411.10958, section 3.2, "per-thread quantization", Hopper tiles): the rows that one thread of the
tensor-core instruction holds share a scale, so that a group costs no extra register.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

FP8_MAX = 448.0
INT8_MAX = 127.0
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Row r of a block of `repeat * groups * inner` is in group (r // inner) % groups."""

    repeat: int
    groups: int
    inner: int

    @property
    def block(self) -> int:
        return self.repeat * self.groups * self.inner

    def scales(self, rows: int) -> int:
        """Number of scales for `rows` rows; the last block may be partly empty."""
        return -(-rows // self.block) * self.groups


Q_GROUPS = RowGroups(repeat=2, groups=8, inner=1)
K_GROUPS = RowGroups(repeat=16, groups=4, inner=2)


def to_fp8(x: Tensor) -> Tensor:
    """Round to the nearest E4M3 value, ties to even; beyond +-448 saturates, NaN stays NaN."""
    return x.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def round_away(x: Tensor) -> Tensor:
    """Round half away from zero, as the GPU kernels do."""
    return torch.sign(x) * torch.floor(x.abs() + 0.5)


def limit_of(dtype: torch.dtype) -> float:
    return INT8_MAX if dtype == torch.int8 else FP8_MAX


def quantise_rows(x: Tensor, groups: RowGroups, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """x (..., rows, dim) to `dtype` (int8 or float8_e4m3fn) and float32 scales (..., n_scales)."""
    scales = (_group_absmax(x.float(), groups) / limit_of(dtype)).clamp_min(TINY)
    scaled = x.float() / row_scales(scales, groups, x.shape[-2])[..., None]
    if dtype == torch.int8:
        return round_away(scaled).clamp(-INT8_MAX, INT8_MAX).to(torch.int8), scales
    return to_fp8(scaled), scales


def row_scales(scales: Tensor, groups: RowGroups, rows: int) -> Tensor:
    """Scales (..., n_scales) laid out per row: (..., rows)."""
    lead = scales.shape[:-1]
    blocks = scales.reshape(*lead, scales.shape[-1] // groups.groups, 1, groups.groups, 1)
    full = blocks.expand(*lead, -1, groups.repeat, groups.groups, groups.inner)
    return full.flatten(-4)[..., :rows]


def _group_absmax(x: Tensor, groups: RowGroups) -> Tensor:
    padded = functional.pad(x.abs().amax(-1), (0, -x.shape[-2] % groups.block))
    count = padded.shape[-1] // groups.block
    blocks = padded.reshape(*x.shape[:-2], count, groups.repeat, groups.groups, groups.inner)
    return blocks.amax((-3, -1)).flatten(-2)


def quantise_channels(v: Tensor, pad_to: int) -> tuple[Tensor, Tensor]:
    """v (..., rows, dim) to E4M3 transposed (..., dim, padded rows) and scales (..., dim).

    One scale per channel over the whole sequence. Stored transposed because Hopper's FP8
    instruction wants the summed axis contiguous; the padding holds zeros.
    """
    v = v.float()
    peak = v.abs().amax(-2) if v.shape[-2] else v.new_zeros(*v.shape[:-2], v.shape[-1])
    scales = (peak / FP8_MAX).clamp_min(TINY)
    cast = to_fp8(v / scales[..., None, :]).view(torch.uint8).transpose(-1, -2)
    padded = functional.pad(cast, (0, -v.shape[-2] % pad_to)).contiguous()
    return padded.view(torch.float8_e4m3fn), scales
