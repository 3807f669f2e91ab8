"""Ring attention: each rank keeps its queries while quantised keys and values travel round.

Step i: send the shard in hand to the next rank and receive the previous rank's, meanwhile attend
to the shard in hand; then join the two partial results by their log-sum-exp. A shard is one
message: K in 8 bits, V in 8 bits, their scales, the mean taken off K, and its part of the key
mask. Each shard's LSE carries the correction for its own mean, so no rank needs a global one.
Memory for K and V is two shards, whatever the number of ranks.
Source: Ring Attention (Liu et al., arXiv 2310.01889); the join is `reference.merge`, in float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from . import reference, sage
from .attention import attention, choose
from .masks import as_4d, intersection, joined, key_slice
from .parallel import Group, Traffic, gather_lengths
from .payload import pack, packed_bytes, unpack
from .quantised import Spec, from_tensors, specs
from .request import FULL, Precision, check_shapes, describe

Attend = Callable[[int, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Shard:
    """How to read a shard's buffer: the parts' shapes, whether a key mask is among them."""

    precision: Precision
    batch: int
    heads: int
    dim: int
    value_dim: int
    dtype: torch.dtype
    masked: bool

    def parts(self, length: int) -> list[Spec]:
        found = specs(
            self.batch, self.heads, length, self.dim, self.value_dim, self.dtype, self.precision
        )
        return [*found, ((self.batch, length), torch.bool)] if self.masked else found


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    group: Group,
    *,
    mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    precision: Precision = FULL,
    lengths: Sequence[int] | None = None,
    traffic: Traffic | None = None,
) -> tuple[Tensor, Tensor]:
    """This rank's queries over all ranks' keys: (batch, heads, own length, dim) and float32 LSE.

    q, k, v are this rank's rows of the sequence, in rank order; lengths may differ and may be
    zero. `key_mask`, bool (batch, own length), True attends, travels with the keys; all ranks give
    one or none does. `mask` is this rank's rows against all keys, broadcasting to (batch, heads,
    own length, total length). `lengths` saves the exchange of lengths when they are known.
    """
    shard = _describe_shard(q, k, v, key_mask, precision)
    if lengths is None:
        lengths = gather_lengths(k.shape[2], group, q.device)
    if len(lengths) != group.size or lengths[group.rank] != k.shape[2]:
        raise ValueError(
            f"ring_attention: lengths {list(lengths)} must have {group.size} entries, and "
            f"{k.shape[2]} for rank {group.rank}"
        )
    _check_masks(q, k, mask, key_mask, sum(lengths))
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(
            f"ring_attention: causal wants queries and keys of the same tokens, got lengths "
            f"{q.shape[2]} and {k.shape[2]}; say by `mask` which keys each query may see"
        )
    emulated = _backend_is_emulated(q, k, v, precision)
    starts = [sum(lengths[:rank]) for rank in range(group.size)]
    factor = q.shape[-1] ** -0.5 if scale is None else scale

    def attend(source: int, buffer: Tensor) -> tuple[Tensor, Tensor]:
        start, length = starts[source], lengths[source]
        tensors = unpack(buffer, shard.parts(length))
        keys = tensors.pop() if shard.masked else None
        columns = None if mask is None else key_slice(as_4d(mask), start, start + length)
        offset = starts[group.rank] - start
        whole = intersection(columns, keys)
        return _attend(q, tensors, whole, causal, offset, factor, precision, emulated)

    sizes = [packed_bytes(shard.parts(length)) for length in lengths]
    # The buffer has no name here: it is freed once it was sent.
    out, lse = _rotate(
        _own_buffer(k, v, key_mask, precision, emulated), sizes, group, attend, traffic
    )
    return out.to(q.dtype), lse


def _own_buffer(
    k: Tensor, v: Tensor, key_mask: Tensor | None, precision: Precision, emulated: bool
) -> Tensor:
    kv = sage.prepare(k, v, precision, emulated).tensors() if precision.quantised else [k, v]
    return pack([*kv, key_mask] if key_mask is not None else kv)


def _rotate(
    buffer: Tensor, sizes: Sequence[int], group: Group, attend: Attend, traffic: Traffic | None
) -> tuple[Tensor, Tensor]:
    """Pass the buffers once round the ring, attending to one while the next is on its way."""
    out: Tensor | None = None
    lse: Tensor | None = None
    for step in range(group.size):
        source = (group.rank - step) % group.size
        pending: list[dist.Work] = []
        coming = buffer
        if step + 1 < group.size:
            coming = buffer.new_empty(sizes[(source - 1) % group.size])
            pending = _exchange(buffer, coming, group)
            if traffic is not None:
                traffic.add("ring", buffer.nbytes)
        part, part_lse = attend(source, buffer)
        if out is None or lse is None:
            out, lse = part.float(), part_lse
        else:
            out, lse = reference.merge(out, lse, part.float(), part_lse)
        for work in pending:
            work.wait()
        buffer = coming
    if out is None or lse is None:
        raise ValueError("ring_attention: the group has no rank")
    return out, lse


def _exchange(buffer: Tensor, coming: Tensor, group: Group) -> list[dist.Work]:
    """Start sending to the next rank and receiving from the one before; returns at once.

    An empty shard has no message: both sides know its length.
    """
    after = group.ranks[(group.rank + 1) % group.size]
    before = group.ranks[(group.rank - 1) % group.size]
    operations: list[dist.P2POp] = []
    if buffer.numel():
        operations.append(dist.P2POp(dist.isend, buffer, after, group.handle))
    if coming.numel():
        operations.append(dist.P2POp(dist.irecv, coming, before, group.handle))
    return dist.batch_isend_irecv(operations) if operations else []


def _attend(
    q: Tensor,
    tensors: list[Tensor],
    mask: Tensor | None,
    causal: bool,
    offset: int,
    scale: float,
    precision: Precision,
    emulated: bool,
) -> tuple[Tensor, Tensor]:
    """Attention to one shard; `offset` is the first query's position minus the first key's."""
    length = tensors[0].shape[2]
    if length == 0 or q.shape[2] == 0 or (causal and offset + q.shape[2] <= 0):
        blind = q.new_full(q.shape[:3], float("-inf"), dtype=torch.float32)
        return q.new_zeros((*q.shape[:3], _value_dim(tensors, precision))), blind
    if precision.quantised:
        kv = from_tensors(tensors, precision)
        return sage.attend(q, kv, mask, causal, offset, scale, torch.float32, emulated)
    if causal and offset >= length:
        causal = False
    if causal and offset:
        mask, causal = joined(mask, True, q.shape[2], length, offset, q.device), False
    return attention(q, tensors[0], tensors[1], mask, causal, scale, return_lse=True)


def _value_dim(tensors: list[Tensor], precision: Precision) -> int:
    return from_tensors(tensors, precision).value_dim


def _describe_shard(
    q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, precision: Precision
) -> Shard:
    check_shapes(q, k, v, None)
    return Shard(
        precision, k.shape[0], k.shape[1], k.shape[3], v.shape[3], k.dtype, key_mask is not None
    )


def _check_masks(
    q: Tensor, k: Tensor, mask: Tensor | None, key_mask: Tensor | None, total: int
) -> None:
    if key_mask is not None and (
        key_mask.dtype != torch.bool or key_mask.shape != (k.shape[0], k.shape[2])
    ):
        raise ValueError(
            f"ring_attention: key_mask must be bool {(k.shape[0], k.shape[2])}, "
            f"got {key_mask.dtype} {tuple(key_mask.shape)}"
        )
    if mask is not None:
        whole = k.new_empty((1, 1, 1, 1)).expand(k.shape[0], k.shape[1], total, k.shape[3])
        check_shapes(q, whole, whole, mask)


def _backend_is_emulated(q: Tensor, k: Tensor, v: Tensor, precision: Precision) -> bool:
    """Whether the 8-bit kernels are the plain-torch ones here; raises when none can run."""
    if not precision.quantised:
        return False
    return choose(describe(q, k, v, None, False, True, precision)).name == "sage_emulated"
