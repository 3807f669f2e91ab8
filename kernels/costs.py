"""What a call must compute and move, in theory: floating-point operations and bytes.

Counted from the shapes alone, apart from the code that runs, so that measured traffic and speed
can be held against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .request import Precision


@dataclass(frozen=True, slots=True)
class Cost:
    """`flops` counts a multiply-add as two; `bytes_moved` reads inputs and writes outputs once."""

    flops: int
    bytes_moved: int


def attention_cost(
    batch: int,
    heads: int,
    kv_heads: int,
    q_len: int,
    k_len: int,
    dim: int,
    precision: Precision,
    causal: bool = False,
    dtype_bytes: int = 2,
) -> Cost:
    """QK and PV; a causal call counts the pairs it may see (top-left)."""
    pairs = sum(min(row + 1, k_len) for row in range(q_len)) if causal else q_len * k_len
    q_bytes = dtype_bytes if precision.qk == "full" else 1
    v_bytes = dtype_bytes if precision.pv == "full" else 1
    moved = (
        batch
        * dim
        * (heads * q_len * (q_bytes + dtype_bytes) + kv_heads * k_len * (q_bytes + v_bytes))
    )
    return Cost(4 * batch * heads * pairs * dim, moved)


def norm_cost(batch: int, tokens: int, channels: int, dtype_bytes: int = 2) -> Cost:
    """Gate, residual, norm, modulate fused: two tensors read and two written."""
    values = batch * tokens * channels
    return Cost(10 * values, 4 * values * dtype_bytes)


def ring_bytes(
    batch: int,
    kv_heads: int,
    dim: int,
    lengths: Sequence[int],
    rank: int,
    precision: Precision,
    dtype_bytes: int = 2,
    masked: bool = False,
) -> int:
    """Bytes that `rank` sends in one ring pass: every shard but that of the next rank.

    A shard's K and V, V's rows padded to 16 in FP8, four scales per 128 rows of K, K's mean and
    V's channel scales in float32; each part padded to 16 bytes.
    """
    after = (rank + 1) % len(lengths)
    return sum(
        _shard_bytes(batch, kv_heads, dim, length, precision, dtype_bytes, masked)
        for place, length in enumerate(lengths)
        if place != after
    )


def _shard_bytes(
    batch: int, heads: int, dim: int, rows: int, precision: Precision, width: int, masked: bool
) -> int:
    lanes = batch * heads
    parts = [lanes * rows * dim * (width if precision.qk == "full" else 1)]
    if precision.pv == "full":
        parts.append(lanes * rows * dim * width)
    else:
        parts += [lanes * (-(-rows // 16) * 16) * dim, lanes * dim * 4]
    if precision.qk != "full":
        parts.append(lanes * -(-rows // 128) * 4 * 4)
        if precision.smooth_k:
            parts.append(lanes * dim * 4)
    if masked:
        parts.append(batch * rows)
    return sum(-(-part // 16) * 16 for part in parts)


def all_gather_bytes(
    batch: int, kv_heads: int, dim: int, lengths: Sequence[int], rank: int, dtype_bytes: int = 2
) -> int:
    """Bytes that an all-gather of K and V in the input dtype makes `rank` pass on in a ring."""
    after = (rank + 1) % len(lengths)
    rows = sum(length for place, length in enumerate(lengths) if place != after)
    return 2 * batch * kv_heads * rows * dim * dtype_bytes


def ulysses_bytes(
    batch: int,
    heads: Sequence[int],
    kv_heads: Sequence[int],
    dim: int,
    lengths: Sequence[int],
    rank: int,
    dtype_bytes: int = 2,
) -> int:
    """Bytes that `rank` sends: its rows of Q, K, V for others' heads, then its heads' output."""
    elsewhere = sum(heads) - heads[rank] + 2 * (sum(kv_heads) - kv_heads[rank])
    back = heads[rank] * (sum(lengths) - lengths[rank])
    return batch * dim * dtype_bytes * (elsewhere * lengths[rank] + back)
