"""Triton kernels of `norms.py`: one program per row, everything of the row in registers.

Tolerance against the twins in `reference.py`: 1e-5 absolute in float32 for rows of unit scale.
"""

from typing import Any

import torch
from torch import Tensor
from triton.language import constexpr

from .tritonlang import in_rows, on_device_of, tl, triton


@triton.jit
def gate_norm_kernel(
    x_ptr: "Any", residual_ptr: "Any", gate_ptr: "Any", shift_ptr: "Any", scale_ptr: "Any",
    weight_ptr: "Any", bias_ptr: "Any", hidden_ptr: "Any", out_ptr: "Any", tokens: "Any",
    gate_stride_b: "Any", gate_stride_t: "Any", shift_stride_b: "Any", shift_stride_t: "Any",
    scale_stride_b: "Any", scale_stride_t: "Any", eps: "Any",
    CHANNELS: constexpr, BLOCK: constexpr, CENTRE: constexpr, WEIGHT: constexpr, BIAS: constexpr,
):  # fmt: skip
    """One token: h = residual + gate x, then norm(h) (1 + scale) + shift."""
    token = tl.program_id(0).to(tl.int64)
    batch = token // tokens
    place = token % tokens
    col = tl.arange(0, BLOCK)
    inside = col < CHANNELS
    x = tl.load(x_ptr + token * CHANNELS + col, mask=inside, other=0.0).to(tl.float32)
    hidden = tl.load(residual_ptr + token * CHANNELS + col, mask=inside, other=0.0).to(tl.float32)
    gate_at = gate_ptr + batch * gate_stride_b + place * gate_stride_t + col
    hidden += tl.load(gate_at, mask=inside, other=0.0).to(tl.float32) * x
    tl.store(
        hidden_ptr + token * CHANNELS + col, hidden.to(hidden_ptr.dtype.element_ty), mask=inside
    )
    y = hidden
    if CENTRE:
        y = tl.where(inside, y - tl.sum(y, 0) / CHANNELS, 0.0)
    y = y * tl.rsqrt(tl.sum(y * y, 0) / CHANNELS + eps)
    if WEIGHT:
        y = y * tl.load(weight_ptr + col, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        y = y + tl.load(bias_ptr + col, mask=inside, other=0.0).to(tl.float32)
    scale_at = scale_ptr + batch * scale_stride_b + place * scale_stride_t + col
    shift_at = shift_ptr + batch * shift_stride_b + place * shift_stride_t + col
    y = y * (1.0 + tl.load(scale_at, mask=inside, other=0.0).to(tl.float32))
    y = y + tl.load(shift_at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * CHANNELS + col, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def norm_rope_kernel(
    x_ptr: "Any", weight_ptr: "Any", cos_ptr: "Any", sin_ptr: "Any", out_ptr: "Any",
    heads: "Any", length: "Any", stride_b: "Any", stride_h: "Any", stride_r: "Any", eps: "Any",
    HALF: constexpr, BLOCK: constexpr, STEP: constexpr, GAP: constexpr,
):  # fmt: skip
    """One head of one token; pair i is channels i * STEP and i * STEP + GAP."""
    row = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    pair = tl.arange(0, BLOCK)
    inside = pair < HALF
    base = x_ptr + (bh // heads) * stride_b + (bh % heads) * stride_h + row.to(tl.int64) * stride_r
    first = pair * STEP
    second = first + GAP
    a = tl.load(base + first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(base + second, mask=inside, other=0.0).to(tl.float32)
    norm = tl.rsqrt((tl.sum(a * a, 0) + tl.sum(b * b, 0)) / (2 * HALF) + eps)
    a = a * norm * tl.load(weight_ptr + first, mask=inside, other=0.0).to(tl.float32)
    b = b * norm * tl.load(weight_ptr + second, mask=inside, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + row * HALF + pair, mask=inside, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + row * HALF + pair, mask=inside, other=0.0).to(tl.float32)
    out = out_ptr + (bh * length + row) * (2 * HALF)
    kind = out_ptr.dtype.element_ty
    tl.store(out + first, (a * cos - b * sin).to(kind), mask=inside)
    tl.store(out + second, (a * sin + b * cos).to(kind), mask=inside)


def gate_residual_norm_modulate(
    x: Tensor,
    residual: Tensor,
    gate: Tensor,
    shift: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    kind: str,
) -> tuple[Tensor, Tensor]:
    batch, tokens, channels = x.shape
    x, residual = x.contiguous(), residual.contiguous()
    hidden, out = torch.empty_like(x), torch.empty_like(x)
    rows = [in_rows(t) for t in (gate, shift, scale)]
    strides = [size for t in rows for size in (t.stride(0), t.stride(1) if t.shape[1] > 1 else 0)]
    block = triton.next_power_of_2(channels)
    kernel: Any = gate_norm_kernel
    with on_device_of(x):
        kernel[(batch * tokens,)](
            x, residual, *rows, x if weight is None else in_rows(weight),
            x if bias is None else in_rows(bias), hidden, out, tokens, *strides, eps,
            CHANNELS=channels, BLOCK=block, CENTRE=kind == "layer",
            WEIGHT=weight is not None, BIAS=bias is not None,
            num_warps=8 if block >= 4096 else 4,
        )  # fmt: skip
    return hidden, out


def norm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, interleaved: bool
) -> Tensor:
    x = in_rows(x)
    batch, heads, length, dim = x.shape
    out = x.new_empty(x.shape)
    half = dim // 2
    kernel: Any = norm_rope_kernel
    with on_device_of(x):
        kernel[(length, batch * heads)](
            x, in_rows(weight), cos.contiguous(), sin.contiguous(), out, heads, length,
            x.stride(0), x.stride(1), x.stride(2), eps,
            HALF=half, BLOCK=triton.next_power_of_2(half), STEP=2 if interleaved else 1,
            GAP=1 if interleaved else half, num_warps=1,
        )  # fmt: skip
    return out
