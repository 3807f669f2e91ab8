"""8-bit attention for NVIDIA GPUs in Triton: INT8 or FP8 QK, FP8 PV, log-sum-exp out.

For one tile of queries, over tiles j of keys, in base 2 with the softmax scale folded in:
    S  = (Q_codes K_codes_j^T) * q_scale * k_scale_j           int32 or float32, then float32
    m' = max(m, rowmax S);  P = 2^(S - m');  l = l 2^(m - m') + rowsum P
    O  = O 2^(m - m') + fp8(448 P) V_codes_j                   a fresh product for each tile
    out = O v_scale / 448 / l;  lse = ln2 (m + log2 l) + (q . mean K) * scale
The fresh product is the second level of accumulation: Hopper's FP8 instruction keeps about 22 bits
of its sum, so only one tile is summed that way. m is the true running maximum, so 448 P never
exceeds 448. Sources: SageAttention 1 and 2 (arXiv 2410.02367, 2411.10958), FlashAttention 2 (arXiv
2307.08691, algorithm 1). Twin: `emulate.py`; both stay within 1e-3 relative L1 of each other.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from triton.language import constexpr

from .emulate import keys_per_tile
from .masks import as_4d, joined
from .quantise_triton import quantise_queries, to_e4m3
from .quantised import QuantisedKV
from .request import MASK_KINDS, MaskKind, mask_kind
from .tritonlang import in_rows, interpreted, on_device_of, tl, triton

LOG2E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class Tile:
    """Queries and keys per program, warps, and the depth of the load pipeline."""

    m: int
    n: int
    warps: int
    stages: int


def tile_for(dim: int, mask: MaskKind) -> Tile:
    """Chosen so that the sm_90 code spills no register (asserted in the tests)."""
    if dim > 128:
        return Tile(64, keys_per_tile(dim), 8, 2)
    if mask == "additive":
        return Tile(64, keys_per_tile(dim), 8, 2)
    return Tile(128, keys_per_tile(dim), 8, 3)


@triton.jit
def attend_kernel(
    q_ptr: "Any", k_ptr: "Any", v_ptr: "Any", out_ptr: "Any", lse_ptr: "Any",
    q_scale_ptr: "Any", k_scale_ptr: "Any", v_scale_ptr: "Any", shift_ptr: "Any", mask_ptr: "Any",
    q_stride_b: "Any", q_stride_h: "Any", q_stride_r: "Any", k_stride_b: "Any", k_stride_h: "Any",
    k_stride_r: "Any", v_stride_b: "Any", v_stride_h: "Any", v_stride_r: "Any",
    mask_stride_b: "Any", mask_stride_h: "Any", mask_stride_q: "Any", mask_stride_k: "Any",
    heads: "Any", group: "Any", q_len: "Any", k_len: "Any", v_len: "Any",
    q_scales: "Any", k_scales: "Any", causal_offset: "Any", scale_log2: "Any",
    DIM: constexpr, BLOCK_D: constexpr, BLOCK_M: constexpr, BLOCK_N: constexpr, MASK: constexpr,
    CAUSAL: constexpr, QK_CODES: constexpr, PV_FP8: constexpr, SHIFT: constexpr, SNAP: constexpr,
):  # fmt: skip
    """One tile of queries of one head against all keys that it may see."""
    tile = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    batch = bh // heads
    head = bh % heads
    kv_head = head // group
    row = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_D)
    span = tl.arange(0, BLOCK_N)
    inside = (row[:, None] < q_len) & (col[None, :] < DIM)
    q_base = q_ptr + batch * q_stride_b + head * q_stride_h
    q = tl.load(
        q_base + row[:, None].to(tl.int64) * q_stride_r + col[None, :], mask=inside, other=0.0
    )
    row_scale = tl.full([BLOCK_M], 1.0, tl.float32) * scale_log2
    if QK_CODES:
        place = bh * q_scales + (row // 16) * 8 + row % 8
        row_scale = row_scale * tl.load(q_scale_ptr + place, mask=row < q_len, other=0.0)
    k_base = k_ptr + batch * k_stride_b + kv_head * k_stride_h
    v_base = v_ptr + batch * v_stride_b + kv_head * v_stride_h
    k_scale_base = k_scale_ptr + (batch * (heads // group) + kv_head) * k_scales
    peak = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    stop = k_len
    if CAUSAL:
        stop = tl.maximum(tl.minimum(k_len, (tile + 1) * BLOCK_M + causal_offset), 0)
    for start in range(0, stop, BLOCK_N):
        key = start + span
        k_in = (key[:, None] < k_len) & (col[None, :] < DIM)
        k_at = k_base + key[:, None].to(tl.int64) * k_stride_r + col[None, :]
        k = tl.load(k_at, mask=k_in, other=0.0)
        if QK_CODES:
            k_at_scale = k_scale_base + (key // 128) * 4 + (key % 8) // 2
            col_scale = tl.load(k_at_scale, mask=key < k_len, other=0.0)
            scores = tl.dot(q, tl.trans(k)).to(tl.float32) * row_scale[:, None] * col_scale[None, :]
        else:
            scores = tl.dot(q, tl.trans(k)).to(tl.float32) * row_scale[:, None]
        allowed = key[None, :] < k_len
        if CAUSAL:
            allowed = allowed & (key[None, :] <= row[:, None] + causal_offset)
        if MASK != 0:
            m_at = mask_ptr + batch * mask_stride_b + head * mask_stride_h
            m_at += row[:, None].to(tl.int64) * mask_stride_q + key[None, :] * mask_stride_k
            m_in = (row[:, None] < q_len) & (key[None, :] < k_len)
            if MASK == 1:
                allowed = allowed & (tl.load(m_at, mask=m_in, other=0) != 0)
            else:
                scores += tl.load(m_at, mask=m_in, other=0.0).to(tl.float32) * 1.4426950408889634
        scores = tl.where(allowed, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        pivot = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        weights = tl.exp2(scores - pivot[:, None])
        decay = tl.exp2(peak - pivot)
        total = total * decay + tl.sum(weights, 1)
        if PV_FP8:
            v_in = (key[None, :] < v_len) & (col[:, None] < DIM)
            v_at = v_base + col[:, None].to(tl.int64) * v_stride_r + key[None, :]
            v = tl.trans(tl.load(v_at, mask=v_in, other=0.0))
            product = tl.dot(to_e4m3(weights * 448.0, SNAP), v)
        else:
            v_at = v_base + key[:, None].to(tl.int64) * v_stride_r + col[None, :]
            v = tl.load(v_at, mask=k_in, other=0.0)
            product = tl.dot(weights.to(v.dtype), v)
        acc = acc * decay[:, None] + product
        peak = new_peak
    if PV_FP8:
        v_scale_at = v_scale_ptr + (batch * (heads // group) + kv_head) * DIM + col
        acc = acc * (tl.load(v_scale_at, mask=col < DIM, other=0.0) / 448.0)[None, :]
    seen = total != 0.0
    total = tl.where(seen, total, 1.0)
    out = acc / total[:, None]
    out_at = out_ptr + (bh * q_len + row[:, None]) * DIM + col[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=inside)
    lse = tl.where(seen, (peak + tl.log2(total)) * 0.6931471805599453, float("-inf"))
    if SHIFT:
        lse += tl.load(shift_ptr + bh * q_len + row, mask=row < q_len, other=0.0)
    tl.store(lse_ptr + bh * q_len + row, lse, mask=row < q_len)


def attend(
    q: Tensor,
    kv: QuantisedKV,
    mask: Tensor | None,
    causal: bool,
    causal_offset: int,
    scale: float,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Output (batch, heads, q_len, dim) and natural-log LSE; at least one query and one key."""
    batch, heads, q_len, dim = q.shape
    out = q.new_empty(q.shape, dtype=out_dtype)
    lse = q.new_empty((batch, heads, q_len), dtype=torch.float32)
    codes, q_scale, shift = in_rows(q), None, None
    if kv.k_scale is not None:
        codes, q_scale, shift = quantise_queries(q, kv.k.dtype, kv.k_mean, scale)
    if dim > 128 and causal and mask is not None:
        # Two conditions on each score are more than the registers of this tile hold.
        mask = joined(mask, True, q_len, kv.length, causal_offset, q.device)
        causal = False
    full = None if mask is None else _expanded(mask, (batch, heads, q_len, kv.length))
    mask_strides = (0, 0, 0, 0) if full is None else full.stride()
    tile = tile_for(dim, mask_kind(mask))
    kernel: Any = attend_kernel
    with on_device_of(q):
        kernel[(triton.cdiv(q_len, tile.m), batch * heads)](
            codes, kv.k, kv.v, out, lse, _or(q_scale, lse), _or(kv.k_scale, lse),
            _or(kv.v_scale, lse), _or(shift, lse), _or(full, lse),
            *codes.stride()[:3], *kv.k.stride()[:3], *kv.v.stride()[:3], *mask_strides,
            heads, heads // kv.heads, q_len, kv.length, kv.v.shape[3],
            0 if q_scale is None else q_scale.shape[2],
            0 if kv.k_scale is None else kv.k_scale.shape[2], causal_offset, scale * LOG2E,
            DIM=dim, BLOCK_D=max(64, triton.next_power_of_2(dim)), BLOCK_M=tile.m, BLOCK_N=tile.n,
            MASK=MASK_KINDS.index(mask_kind(mask)), CAUSAL=causal,
            QK_CODES=q_scale is not None, PV_FP8=kv.v_scale is not None, SHIFT=shift is not None,
            SNAP=interpreted(), num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return out, lse


def _or(tensor: Tensor | None, stand_in: Tensor) -> Tensor:
    """A pointer that the kernel never follows where the argument is absent."""
    return stand_in if tensor is None else tensor


def _expanded(mask: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """The mask with zero strides along broadcast axes; bool as bytes, float as it is."""
    mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
    return as_4d(mask).expand(shape)
