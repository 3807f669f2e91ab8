"""8-bit attention in plain torch with the rounding of the GPU kernel, block by block.

Every rounding step of `sage_triton` is taken here in the same order: the same tiles of keys, the
same running maximum, P cast to FP8 against that maximum, one fresh product per tile added to the
float32 sum. So the error of a precision can be measured on a machine without a GPU.
"""

import math

import torch
from torch import Tensor

from .fp8 import FP8_MAX, K_GROUPS, Q_GROUPS, quantise_rows, row_scales, to_fp8
from .masks import joined, key_slice
from .quantised import QuantisedKV
from .reference import finite


def keys_per_tile(head_dim: int) -> int:
    """Keys that share a running maximum and a fresh product; fewer where registers are short."""
    return 64 if head_dim <= 128 else 32


def attend(
    q: Tensor,
    kv: QuantisedKV,
    mask: Tensor | None,
    causal: bool,
    causal_offset: int,
    scale: float,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Output (batch, heads, q_len, dim) and natural-log LSE, the smoothing of K corrected in it."""
    group = q.shape[1] // kv.heads
    full = joined(mask, causal, q.shape[2], kv.length, causal_offset, q.device)
    queries = _queries(q, kv, scale * math.log2(math.e))
    peak = q.new_full(q.shape[:3], -math.inf, dtype=torch.float32)
    total = torch.zeros_like(peak)
    out = q.new_zeros((*q.shape[:3], kv.value_dim), dtype=torch.float32)
    tile = keys_per_tile(q.shape[3])
    for start in range(0, kv.length, tile):
        stop = min(start + tile, kv.length)
        scores = _masked(queries @ _keys(kv, start, stop, group).mT, full, start, stop)
        new_peak = torch.maximum(peak, scores.amax(-1))
        pivot = finite(new_peak)
        weights = torch.exp2(scores - pivot[..., None])
        decay = torch.exp2(peak - pivot)
        total = total * decay + weights.sum(-1)
        out = out * decay[..., None] + _weighted(weights, kv, start, stop, group)
        peak = new_peak
    return _finish(q, kv, out, total, peak, scale, out_dtype)


def _queries(q: Tensor, kv: QuantisedKV, factor: float) -> Tensor:
    """Dequantised queries with the softmax scale, in base 2, folded in.

    Integers up to 127 times 127 times 256 channels are exact in float32, so multiplying by the
    scales first only moves a rounding of the last bit.
    """
    if kv.k_scale is None:
        return q.float() * factor
    codes, scales = quantise_rows(q, Q_GROUPS, kv.k.dtype)
    return codes.float() * (row_scales(scales, Q_GROUPS, q.shape[2]) * factor)[..., None]


def _keys(kv: QuantisedKV, start: int, stop: int, group: int) -> Tensor:
    keys = kv.k[:, :, start:stop].float()
    if kv.k_scale is not None:
        keys = keys * row_scales(kv.k_scale, K_GROUPS, kv.length)[:, :, start:stop, None]
    return keys.repeat_interleave(group, 1)


def _masked(scores: Tensor, mask: Tensor | None, start: int, stop: int) -> Tensor:
    if mask is None:
        return scores
    part = key_slice(mask, start, stop)
    if mask.dtype == torch.bool:
        return scores.masked_fill(~part, -math.inf)
    return scores + part.float() * math.log2(math.e)


def _weighted(weights: Tensor, kv: QuantisedKV, start: int, stop: int, group: int) -> Tensor:
    if kv.v_scale is None:
        values = kv.v[:, :, start:stop]
        return weights.to(values.dtype).float() @ values.float().repeat_interleave(group, 1)
    values = kv.v[:, :, :, start:stop].float().mT.repeat_interleave(group, 1)
    return to_fp8(weights * FP8_MAX).float() @ values


def _finish(
    q: Tensor,
    kv: QuantisedKV,
    out: Tensor,
    total: Tensor,
    peak: Tensor,
    scale: float,
    out_dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    group = q.shape[1] // kv.heads
    if kv.v_scale is not None:
        out = out * (kv.v_scale / FP8_MAX).repeat_interleave(group, 1)[:, :, None]
    seen = total != 0
    out = out / torch.where(seen, total, 1.0)[..., None]
    lse = torch.where(seen, (peak + torch.log2(total)) * math.log(2), -math.inf)
    if kv.k_mean is not None:
        mean = kv.k_mean.repeat_interleave(group, 1)
        lse = lse + (q.float() * mean[:, :, None]).sum(-1) * scale
    return out.to(out_dtype), lse
