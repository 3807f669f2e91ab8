"""Attention masks: one broadcastable 4-D shape, joined with causality, sliced for shards."""

import torch
from torch import Tensor


def as_4d(mask: Tensor) -> Tensor:
    """View a 2-D (q_len, k_len) or 3-D mask as 4-D with leading axes of one."""
    while mask.dim() < 4:
        mask = mask.unsqueeze(0)
    return mask


def causal_allowed(q_len: int, k_len: int, offset: int, device: torch.device) -> Tensor:
    """Bool (q_len, k_len): key j is seen by query i when j <= i + offset (0 is top-left)."""
    rows = torch.arange(q_len, device=device)[:, None] + offset
    return torch.arange(k_len, device=device)[None, :] <= rows


def joined(
    mask: Tensor | None, causal: bool, q_len: int, k_len: int, offset: int, device: torch.device
) -> Tensor | None:
    """One mask that says what `mask` and `causal` say together; None when neither limits."""
    if not causal:
        return None if mask is None else as_4d(mask)
    allowed = as_4d(causal_allowed(q_len, k_len, offset, device))
    if mask is None:
        return allowed
    if mask.dtype == torch.bool:
        return as_4d(mask) & allowed
    return as_4d(mask).masked_fill(~allowed, float("-inf"))


def intersection(mask: Tensor | None, key_mask: Tensor | None) -> Tensor | None:
    """Join a mask of any kind with a key mask: bool (batch, k_len), True attends."""
    if key_mask is None:
        return None if mask is None else as_4d(mask)
    keys = key_mask[:, None, None, :]
    if mask is None:
        return keys
    if mask.dtype == torch.bool:
        return as_4d(mask) & keys
    return as_4d(mask).masked_fill(~keys, float("-inf"))


def blind_rows(mask: Tensor) -> Tensor:
    """Bool (..., q_len, 1): rows that may attend to nothing."""
    if mask.dtype == torch.bool:
        return ~mask.any(-1, keepdim=True)
    return (mask == float("-inf")).all(-1, keepdim=True)


def key_slice(mask: Tensor, start: int, stop: int) -> Tensor:
    """Columns start..stop of a 4-D mask; a key axis of one stays as it is."""
    return mask if mask.shape[-1] == 1 else mask[..., start:stop]
