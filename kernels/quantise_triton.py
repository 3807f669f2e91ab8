"""Triton kernels that quantise Q, K and V in one pass each; twins in `fp8.py` and `quantised.py`.

Q and K: codes = round(x - mean) / scale with one scale per group of rows (`fp8.RowGroups`), and,
for Q, the product q . mean(K) that the log-sum-exp needs afterwards. V: transposed to E4M3 with a
scale per channel. Shapes (batch, heads, rows, dim) with any strides whose last is 1.
"""

from typing import Any

import torch
from torch import Tensor
from triton.language import constexpr

from .fp8 import FP8_MAX, K_GROUPS, Q_GROUPS, TINY, RowGroups, limit_of
from .quantised import LENGTH_MULTIPLE, QK_DTYPES, QuantisedKV, key_mean
from .request import Precision
from .tritonlang import in_rows, interpreted, on_device_of, tl, triton

ROWS = 128


@triton.jit
def to_e4m3(x: "Any", SNAP: constexpr):
    """Saturating cast. SNAP rounds by hand first: the interpreter's own cast loses a carry."""
    x = tl.minimum(tl.maximum(x, -448.0), 448.0)
    if SNAP:
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000
        normal = bits.to(tl.float32, bitcast=True)
        # Below 2**-6 the grid is even, steps of 2**-9; adding 1.5 * 2**14 rounds to it.
        small = (x + 24576.0) - 24576.0
        x = tl.where(tl.abs(x) < 0.015625, small, normal)
    return x.to(tl.float8e4nv)


@triton.jit
def quantise_rows_kernel(
    x_ptr: "Any", mean_ptr: "Any", codes_ptr: "Any", scale_ptr: "Any", dot_ptr: "Any",
    stride_b: "Any", stride_h: "Any", stride_r: "Any", heads: "Any", rows: "Any", n_scales: "Any",
    limit: "Any", dot_scale: "Any", mean_group: "Any",
    DIM: constexpr, BLOCK_D: constexpr, OUTER: constexpr, REPEAT: constexpr, GROUPS: constexpr,
    INNER: constexpr, CENTRE: constexpr, DOT: constexpr, INT8: constexpr, SNAP: constexpr,
):  # fmt: skip
    """One program: OUTER blocks of REPEAT * GROUPS * INNER rows of one head."""
    BLOCK: constexpr = OUTER * REPEAT * GROUPS * INNER
    pid = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    batch = bh // heads
    head = bh % heads
    row = pid * BLOCK + tl.arange(0, BLOCK)
    col = tl.arange(0, BLOCK_D)
    inside = (row[:, None] < rows) & (col[None, :] < DIM)
    base = x_ptr + batch * stride_b + head * stride_h
    x = tl.load(base + row[:, None].to(tl.int64) * stride_r + col[None, :], mask=inside, other=0.0)
    x = x.to(tl.float32)
    mean = tl.zeros([BLOCK_D], tl.float32)
    if CENTRE or DOT:
        kv = batch * (heads // mean_group) + head // mean_group
        mean = tl.load(mean_ptr + kv * DIM + col, mask=col < DIM, other=0.0)
    if DOT:
        product = tl.sum(x * mean[None, :], 1) * dot_scale
        tl.store(dot_ptr + bh * rows + row, product, mask=row < rows)
    if CENTRE:
        x = tl.where(inside, x - mean[None, :], 0.0)
    peak = tl.reshape(tl.max(tl.abs(x), 1), [OUTER, REPEAT, GROUPS, INNER])
    # A maximum drops NaN, a sum keeps it, and x * 0 is NaN for infinity too.
    taint = tl.reshape(tl.sum(x * 0.0, 1), [OUTER, REPEAT, GROUPS, INNER])
    scale = tl.maximum(tl.max(tl.max(peak, 3), 1) / limit, 1e-12)
    scale += tl.sum(tl.sum(taint, 3), 1)
    spread = tl.broadcast_to(scale[:, None, :, None], [OUTER, REPEAT, GROUPS, INNER])
    scaled = x / tl.reshape(spread, [BLOCK])[:, None]
    index = pid * (OUTER * GROUPS) + tl.arange(0, OUTER * GROUPS)
    flat = tl.reshape(scale, [OUTER * GROUPS])
    tl.store(scale_ptr + bh * n_scales + index, flat, mask=index < n_scales)
    if INT8:
        away = tl.floor(tl.abs(scaled) + 0.5)
        codes = tl.where(scaled < 0, -away, away).to(tl.int8)
    else:
        codes = to_e4m3(scaled, SNAP)
    out = codes_ptr + (bh * rows + row[:, None]) * DIM + col[None, :]
    tl.store(out, codes, mask=inside)


@triton.jit
def quantise_values_kernel(
    v_ptr: "Any", scale_ptr: "Any", codes_ptr: "Any",
    stride_b: "Any", stride_h: "Any", stride_r: "Any", heads: "Any", rows: "Any",
    padded_rows: "Any",
    DIM: constexpr, BLOCK_D: constexpr, BLOCK: constexpr, SNAP: constexpr,
):  # fmt: skip
    """One program: BLOCK rows of one head, written transposed; the padding gets zeros."""
    bh = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    col = tl.arange(0, BLOCK_D)
    inside = (row[:, None] < rows) & (col[None, :] < DIM)
    base = v_ptr + (bh // heads) * stride_b + (bh % heads) * stride_h
    v = tl.load(base + row[:, None].to(tl.int64) * stride_r + col[None, :], mask=inside, other=0.0)
    scale = tl.load(scale_ptr + bh * DIM + col, mask=col < DIM, other=1.0)
    codes = tl.trans(to_e4m3(v.to(tl.float32) / scale[None, :], SNAP))
    out = codes_ptr + (bh * DIM + col[:, None]) * padded_rows + row[None, :]
    tl.store(out, codes, mask=(col[:, None] < DIM) & (row[None, :] < padded_rows))


def quantise_rows(
    x: Tensor, groups: RowGroups, dtype: torch.dtype, centre: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Codes (batch, heads, rows, dim) and scales (batch, heads, n_scales) of x - centre."""
    codes, scales, _ = _launch_rows(x, groups, dtype, centre, None, 0.0)
    return codes, scales


def quantise_queries(
    q: Tensor, dtype: torch.dtype, k_mean: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes, scales, and (q . k_mean) * scale (batch, heads, rows) when K was smoothed."""
    return _launch_rows(q, Q_GROUPS, dtype, None, k_mean, scale)


def _launch_rows(
    x: Tensor,
    groups: RowGroups,
    dtype: torch.dtype,
    centre: Tensor | None,
    dot_mean: Tensor | None,
    dot_scale: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    x = in_rows(x)
    batch, heads, rows, dim = x.shape
    n_scales = groups.scales(rows)
    codes = x.new_empty(x.shape, dtype=dtype)
    scales = x.new_empty((batch, heads, n_scales), dtype=torch.float32)
    dots = x.new_empty((batch, heads, rows), dtype=torch.float32) if dot_mean is not None else None
    mean = dot_mean if centre is None else centre
    kernel: Any = quantise_rows_kernel
    with on_device_of(x):
        kernel[(triton.cdiv(rows, ROWS), batch * heads)](
            x, scales if mean is None else mean, codes, scales, scales if dots is None else dots,
            x.stride(0), x.stride(1), x.stride(2), heads, rows, n_scales, limit_of(dtype),
            dot_scale, 1 if mean is None else heads // mean.shape[1],
            DIM=dim, BLOCK_D=triton.next_power_of_2(dim), OUTER=ROWS // groups.block,
            REPEAT=groups.repeat, GROUPS=groups.groups, INNER=groups.inner,
            CENTRE=centre is not None, DOT=dots is not None, INT8=dtype == torch.int8,
            SNAP=interpreted(),
        )  # fmt: skip
    return codes, scales, dots


def quantise_values(v: Tensor) -> tuple[Tensor, Tensor]:
    """E4M3 (batch, heads, dim, padded rows) and scales (batch, heads, dim)."""
    v = in_rows(v)
    batch, heads, rows, dim = v.shape
    padded = rows + -rows % LENGTH_MULTIPLE
    low, high = torch.aminmax(v, dim=2)
    scales = (torch.maximum(high, -low).float() / FP8_MAX).clamp_min(TINY)
    codes = v.new_empty((batch, heads, dim, padded), dtype=torch.float8_e4m3fn)
    kernel: Any = quantise_values_kernel
    with on_device_of(v):
        kernel[(triton.cdiv(padded, 64), batch * heads)](
            v, scales, codes, v.stride(0), v.stride(1), v.stride(2), heads, rows, padded,
            DIM=dim, BLOCK_D=triton.next_power_of_2(dim), BLOCK=64, SNAP=interpreted(),
        )  # fmt: skip
    return codes, scales


def quantise_kv(k: Tensor, v: Tensor, precision: Precision) -> QuantisedKV:
    """The GPU's `quantised.quantise_kv`; both hold at least one row."""
    mean = key_mean(k, precision)
    key, key_scale = in_rows(k), None
    if precision.qk != "full":
        key, key_scale = quantise_rows(k, K_GROUPS, QK_DTYPES[precision.qk], mean)
    value, value_scale = quantise_values(v) if precision.pv == "fp8" else (in_rows(v), None)
    return QuantisedKV(key, value, key_scale, mean, value_scale)
