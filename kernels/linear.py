"""Linear layers in few bits: weights quantised once, activations per call.

FP8 and INT8: one scale per output channel of the weight and one per token of the activation; the
product runs on the 8-bit units where torch has them (`torch._scaled_mm`, `torch._int_mm`), else in
float32 on the same codes. The block-scaled formats round both sides as their hardware would and
multiply in float32: what they cost in quality, not in time. Row scales: LLM.int8 (arXiv
2208.07339, section 2); block formats: `microscale`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from .fp8 import FP8_MAX, INT8_MAX, TINY, round_away, to_fp8
from .microscale import FORMATS, MicroTensor, dequantise, quantise

LinearFormat = Literal["int8", "fp8", "mxfp8", "mxfp4", "nvfp4"]
LINEAR_FORMATS: tuple[LinearFormat, ...] = ("int8", "fp8", "mxfp8", "mxfp4", "nvfp4")


@dataclass(frozen=True, slots=True)
class QuantisedWeight:
    """(out, in) weight: int8 or E4M3 `codes` with float32 `scales` (out,), or a block tensor."""

    form: LinearFormat
    codes: Tensor | MicroTensor
    scales: Tensor | None

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + (0 if self.scales is None else self.scales.nbytes)


def quantise_weight(weight: Tensor, form: LinearFormat) -> QuantisedWeight:
    if weight.dim() != 2:
        raise ValueError(f"quantise_weight: weight must be (out, in), got {tuple(weight.shape)}")
    if form not in LINEAR_FORMATS:
        raise ValueError(
            f"quantise_weight: format {form!r} is unknown; known: {', '.join(LINEAR_FORMATS)}"
        )
    if form in ("int8", "fp8"):
        codes, scales = quantise_tokens(weight, form)
        return QuantisedWeight(form, codes, scales)
    return QuantisedWeight(form, quantise(weight, FORMATS[form]), None)


def quantise_tokens(x: Tensor, form: Literal["int8", "fp8"]) -> tuple[Tensor, Tensor]:
    """Codes (..., dim) and float32 scales (...,), one scale per row."""
    limit = INT8_MAX if form == "int8" else FP8_MAX
    scales = (x.float().abs().amax(-1) / limit).clamp_min(TINY)
    scaled = x.float() / scales[..., None]
    return round_away(scaled).to(torch.int8) if form == "int8" else to_fp8(scaled), scales


def quantised_linear(x: Tensor, weight: QuantisedWeight, bias: Tensor | None = None) -> Tensor:
    """x (..., in) times the weight, plus bias, in the dtype of x."""
    rows = x.reshape(-1, x.shape[-1])
    if isinstance(weight.codes, MicroTensor):
        rounded = dequantise(quantise(rows, weight.codes.form))
        out = rounded @ dequantise(weight.codes).T
    else:
        out = _scaled_product(rows, weight.codes, weight.scales)
    out = out if bias is None else out + bias.float()
    return out.to(x.dtype).view(*x.shape[:-1], out.shape[-1])


def _scaled_product(rows: Tensor, codes: Tensor, scales: Tensor | None) -> Tensor:
    if scales is None:
        raise ValueError("quantised_linear: an int8 or fp8 weight needs its scales")
    form: Literal["int8", "fp8"] = "int8" if codes.dtype == torch.int8 else "fp8"
    tokens, token_scales = quantise_tokens(rows, form)
    if form == "fp8" and _has_fp8_units(rows, codes):
        private: Any = torch
        product: Tensor = private._scaled_mm(
            tokens, codes.T, scale_a=token_scales[:, None], scale_b=scales[None],
            out_dtype=torch.bfloat16,
        )  # fmt: skip
        return product.float()
    product = _int_product(tokens, codes) if form == "int8" else tokens.float() @ codes.float().T
    return product * token_scales[:, None] * scales[None]


def _int_product(tokens: Tensor, codes: Tensor) -> Tensor:
    """Exact int32 sums; the GPU's routine wants more than 16 rows and multiples of 8."""
    fits = tokens.shape[0] > 16 and tokens.shape[1] % 8 == 0 and codes.shape[0] % 8 == 0
    if tokens.device.type == "cpu" or fits:
        private: Any = torch
        product: Tensor = private._int_mm(tokens, codes.T)
        return product.float()
    return (tokens.double() @ codes.double().T).float()


def _has_fp8_units(rows: Tensor, codes: Tensor) -> bool:
    """torch's row-wise scaled product: Hopper or later, sizes in multiples of 16."""
    if rows.device.type != "cuda" or codes.shape[0] % 16 or codes.shape[1] % 16:
        return False
    return torch.cuda.get_device_capability(rows.device) >= (9, 0)
