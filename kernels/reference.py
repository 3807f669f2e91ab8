"""Plain-torch twins of every kernel: exact maths, in any float dtype (float64 for the tests).

A fast kernel is right when it agrees with its twin here within the error budget of its format.
"""

import math

import torch
from torch import Tensor

from .masks import joined


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    causal_offset: int = 0,
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T scale + mask) v and its log-sum-exp, with the whole score matrix in memory.

    q (batch, heads, q_len, dim); k, v with kv_heads dividing heads. LSE is (batch, heads, q_len)
    in natural log. A row that may attend to nothing gives zeros and LSE -inf.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    full = joined(mask, causal, q.shape[2], k.shape[2], causal_offset, q.device)
    if full is not None and full.dtype == torch.bool:
        scores = scores.masked_fill(~full, -math.inf)
    elif full is not None:
        scores = scores + full.to(scores.dtype)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - finite(lse)[..., None])
    return weights @ v, lse


def finite(lse: Tensor) -> Tensor:
    """Zero in place of -inf, so that a row without keys subtracts nothing; NaN stays NaN."""
    return torch.where(lse == -math.inf, torch.zeros_like(lse), lse)


def merge(o: Tensor, lse: Tensor, o_part: Tensor, lse_part: Tensor) -> tuple[Tensor, Tensor]:
    """Join attention over two disjoint key sets; o (..., rows, dim), lse (..., rows).

    The weight of a part is its share of the softmax's denominator, exp(lse_part - lse_both).
    Either side, or both, may have seen no key (lse -inf).
    """
    both = torch.logaddexp(lse, lse_part)
    pivot = finite(both)
    left, right = torch.exp(lse - pivot)[..., None], torch.exp(lse_part - pivot)[..., None]
    return o * left + o_part * right, both


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return _affine(centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt(), weight, bias)


def rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return _affine(x * (x.square().mean(-1, keepdim=True) + eps).rsqrt(), weight, bias)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def gate_residual_norm_modulate(
    x: Tensor,
    residual: Tensor,
    gate: Tensor,
    shift: Tensor,
    scale: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-6,
    kind: str = "layer",
) -> tuple[Tensor, Tensor]:
    """h = residual + gate x, and norm(h) (1 + scale) + shift; x (batch, tokens, channels)."""
    hidden = residual + gate * x
    norm = layer_norm if kind == "layer" else rms_norm
    return hidden, norm(hidden, weight, bias, eps) * (1 + scale) + shift


def rope(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = True) -> Tensor:
    """Rotate channel pairs; x (batch, heads, length, dim), cos and sin (length, dim / 2).

    Pairs are neighbours (0,1), (2,3) ... when interleaved (FLUX, Wan), else halves (i, i + dim/2).
    RoFormer, arXiv 2104.09864, section 3.2.
    """
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def norm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float = 1e-6, interleaved: bool = True
) -> Tensor:
    """RMS norm over each head's channels, then the rotation: what a DiT does to q and k."""
    return rope(rms_norm(x, weight, None, eps), cos, sin, interleaved)
