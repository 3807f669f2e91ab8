"""Block-scaled number formats: quantise, dequantise, pack and unpack.

A block of neighbouring values along the last axis shares one scale. MXFP8 and MXFP4: blocks of 32,
scale a power of two in E8M0 (OCP Microscaling Formats v1.0, sections 5 and 6.3). NVFP4: blocks of
16, scale in E4M3 under one float32 scale per tensor (NVIDIA, "Pretraining LLMs with NVFP4", arXiv
2509.25149). All rounding is to nearest, ties to even; values beyond the range saturate.
"""

import itertools
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from .fp8 import FP8_MAX, to_fp8

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
FP4_MAX = 6.0
E8M0_BIAS = 127
E8M0_NAN = 255


@dataclass(frozen=True, slots=True)
class MicroFormat:
    """`exponent_max` is the exponent of the largest element value: 8 for 448, 2 for 6."""

    name: Literal["mxfp8", "mxfp4", "nvfp4"]
    block: int
    element_bits: Literal[4, 8]
    exponent_max: int


MXFP8 = MicroFormat("mxfp8", 32, 8, 8)
MXFP4 = MicroFormat("mxfp4", 32, 4, 2)
NVFP4 = MicroFormat("nvfp4", 16, 4, 2)
FORMATS = {form.name: form for form in (MXFP8, MXFP4, NVFP4)}


@dataclass(frozen=True, slots=True)
class MicroTensor:
    """Quantised (..., length): `codes` uint8, two to a byte for FP4 (the first in the low half),
    padded to whole blocks; `scales` uint8 (..., blocks); `tensor_scale` float32 scalar for NVFP4.
    """

    form: MicroFormat
    codes: Tensor
    scales: Tensor
    tensor_scale: Tensor | None
    length: int

    @property
    def nbytes(self) -> int:
        extra = 0 if self.tensor_scale is None else self.tensor_scale.nbytes
        return self.codes.nbytes + self.scales.nbytes + extra


def quantise(x: Tensor, form: MicroFormat) -> MicroTensor:
    """Quantise along the last axis. A block with NaN or infinity becomes NaN as a whole (MX)."""
    blocks = _blocks(x.float(), form.block)
    peaks = blocks.abs().amax(-1)
    tensor_scale = None
    if form.name == "nvfp4":
        whole = peaks.max() if peaks.numel() else x.new_zeros((), dtype=torch.float32)
        tensor_scale = (whole / (FP8_MAX * FP4_MAX)).clamp_min(torch.finfo(torch.float32).tiny)
        coded = to_fp8(peaks / FP4_MAX / tensor_scale)
        scales, steps = coded.view(torch.uint8), coded.float() * tensor_scale
    else:
        scales = _e8m0_code(peaks, form.exponent_max)
        steps = e8m0_value(scales)
    scaled = torch.where(steps[..., None] == 0, 0.0, blocks / steps[..., None]).flatten(-2)
    codes = (
        to_fp8(scaled).view(torch.uint8) if form.element_bits == 8 else pack_fp4(fp4_code(scaled))
    )
    return MicroTensor(form, codes, scales, tensor_scale, x.shape[-1])


def dequantise(x: MicroTensor) -> Tensor:
    """float32 (..., length)."""
    if x.form.element_bits == 8:
        values = x.codes.view(torch.float8_e4m3fn).float()
    else:
        values = fp4_value(unpack_fp4(x.codes))
    if x.tensor_scale is None:
        steps = e8m0_value(x.scales)
    else:
        steps = x.scales.view(torch.float8_e4m3fn).float() * x.tensor_scale
    whole = values.reshape(*steps.shape, x.form.block) * steps[..., None]
    return whole.flatten(-2)[..., : x.length]


def fp4_code(x: Tensor) -> Tensor:
    """E2M1 codes 0..15, uint8, one to a byte: sign in bit 3; saturates at 6."""
    size = x.abs()
    code = torch.zeros(x.shape, dtype=torch.uint8, device=x.device)
    for low, (below, above) in enumerate(itertools.pairwise(FP4_VALUES)):
        middle = (below + above) / 2
        # A tie goes to the even code: up from an odd one, down to an even one.
        code += (size >= middle) if low % 2 else (size > middle)
    return code | (torch.signbit(x).to(torch.uint8) << 3)


def fp4_value(codes: Tensor) -> Tensor:
    """float32 value of each E2M1 code."""
    table = torch.tensor(FP4_VALUES + tuple(-v for v in FP4_VALUES), device=codes.device)
    return table[codes.long()]


def pack_fp4(codes: Tensor) -> Tensor:
    """Two codes to a byte along the last axis, whose length must be even; first in the low half."""
    if codes.shape[-1] % 2:
        raise ValueError(f"pack_fp4: the last axis must be even, got {tuple(codes.shape)}")
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_fp4(packed: Tensor) -> Tensor:
    """Undo `pack_fp4`."""
    return torch.stack((packed & 0xF, packed >> 4), -1).flatten(-2)


def e8m0_value(codes: Tensor) -> Tensor:
    """2^(code - 127), float32; code 255 is NaN."""
    bits = codes.int() << 23
    # Code 0, 2^-127, is below float32's normal range: its exponent bits are zero.
    power = torch.where(codes == 0, 1 << 22, bits).view(torch.float32)
    return torch.where(codes == E8M0_NAN, torch.nan, power)


def _e8m0_code(peaks: Tensor, exponent_max: int) -> Tensor:
    """Exponent of the block's largest value less that of the largest element (OCP 6.3)."""
    exponent = torch.frexp(peaks).exponent.int() - 1 - exponent_max + E8M0_BIAS
    code = torch.where(peaks == 0, 0, exponent.clamp(0, E8M0_NAN - 1))
    return torch.where(torch.isfinite(peaks), code, E8M0_NAN).to(torch.uint8)


def _blocks(x: Tensor, block: int) -> Tensor:
    padded = functional.pad(x, (0, -x.shape[-1] % block))
    return padded.reshape(*x.shape[:-1], padded.shape[-1] // block, block)
