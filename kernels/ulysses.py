"""Ulysses: trade sequence shards for head shards, attend over the whole sequence, trade back.

Neither heads nor lengths need divide: 3 heads on 2 ranks are 2 and 1, and no head is padded, so
the bytes on the wire are exactly those of the data. Query heads that share a key head stay on one
rank; with fewer key heads than ranks, the rest of the ranks only pass data on.
Source: DeepSpeed Ulysses (arXiv 2309.14509). With a ring of more than one it is USP (arXiv
2405.07719): the ring runs over the head shards of each Ulysses group.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .attention import attention
from .masks import as_4d, intersection
from .parallel import Group, Mesh, Traffic, agreed, comm, gather, gather_lengths, split_sizes
from .request import FULL, Precision, check_shapes
from .ring import ring_attention


def unified_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mesh: Mesh,
    *,
    mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    precision: Precision = FULL,
    lengths: Sequence[int] | None = None,
    traffic: Traffic | None = None,
) -> Tensor:
    """Attention over the sequence cut across `mesh.ring` x `mesh.ulysses`; arguments as in
    `ring_attention`. Rank order is sequence order, Ulysses neighbours next to each other.

    `lengths`, one per rank of the whole mesh in that order, saves their exchange.
    """
    check_shapes(q, k, v, None)
    if q.shape[2] != k.shape[2]:
        raise ValueError(
            f"unified_attention: own queries and keys must be the same tokens, got lengths "
            f"{q.shape[2]} and {k.shape[2]}; attend to keys that every rank holds without it"
        )
    group = mesh.ulysses
    if lengths is None:
        ring_lengths, lengths = None, gather_lengths(q.shape[2], group, q.device)
    else:
        ring_lengths, lengths = _by_ring(lengths, mesh)
    heads = head_sizes(q.shape[1], k.shape[1], group.size)
    kv_heads = split_sizes(k.shape[1], group.size)
    full_q = to_heads(q, heads, lengths, group, traffic)
    full_k = to_heads(k, kv_heads, lengths, group, traffic)
    full_v = to_heads(v, kv_heads, lengths, group, traffic)
    keys = None if key_mask is None else gather(key_mask, 1, group, lengths, traffic)
    rows = None if mask is None else _whole_mask(mask, q, heads, lengths, group, traffic)
    if full_q.shape[1] == 0:
        # All ranks of this ring hold the same head shard, so all of them skip it together.
        out = full_q.new_zeros((*full_q.shape[:3], v.shape[3]))
    elif mesh.ring.size > 1:
        out, _ = ring_attention(
            full_q, full_k, full_v, mesh.ring, mask=rows, key_mask=keys, causal=causal,
            scale=scale, precision=precision, lengths=ring_lengths, traffic=traffic,
        )  # fmt: skip
    else:
        whole = intersection(rows, keys)
        out = attention(full_q, full_k, full_v, whole, causal, scale, precision=precision)
    return to_sequence(out, heads, lengths, group, traffic)


def _by_ring(lengths: Sequence[int], mesh: Mesh) -> tuple[list[int], list[int]]:
    """Each ring rank's length after the all-to-all, and each rank's of this Ulysses group."""
    width = mesh.ulysses.size
    if len(lengths) != width * mesh.ring.size:
        raise ValueError(
            f"unified_attention: lengths must have {width * mesh.ring.size} entries, "
            f"one a rank, got {len(lengths)}"
        )
    lines = [list(lengths[at : at + width]) for at in range(0, len(lengths), width)]
    return [sum(line) for line in lines], lines[mesh.ring.rank]


def head_sizes(heads: int, kv_heads: int, ranks: int) -> list[int]:
    """Query heads per rank: whole groups of the query heads that share a key head."""
    return [size * (heads // kv_heads) for size in split_sizes(kv_heads, ranks)]


def to_heads(
    x: Tensor, heads: Sequence[int], lengths: Sequence[int], group: Group, traffic: Traffic | None
) -> Tensor:
    """(batch, all heads, own length, dim) to (batch, own heads, whole length, dim)."""
    if group.size == 1:
        return x
    batch, _, _, dim = x.shape
    pieces = [part.reshape(-1) for part in torch.split(x, list(heads), 1)]
    mine = heads[group.rank]
    expect = [batch * mine * length * dim for length in lengths]
    got = _all_to_all(pieces, expect, group, traffic)
    shards = [
        part.view(batch, mine, length, dim) for part, length in zip(got, lengths, strict=True)
    ]
    return torch.cat(shards, 2)


def to_sequence(
    x: Tensor, heads: Sequence[int], lengths: Sequence[int], group: Group, traffic: Traffic | None
) -> Tensor:
    """(batch, own heads, whole length, dim) to (batch, all heads, own length, dim)."""
    if group.size == 1:
        return x
    batch, _, _, dim = x.shape
    pieces = [part.reshape(-1) for part in torch.split(x, list(lengths), 2)]
    mine = lengths[group.rank]
    expect = [batch * count * mine * dim for count in heads]
    got = _all_to_all(pieces, expect, group, traffic)
    shards = [part.view(batch, count, mine, dim) for part, count in zip(got, heads, strict=True)]
    return torch.cat(shards, 1)


def _all_to_all(
    pieces: Sequence[Tensor], expect: Sequence[int], group: Group, traffic: Traffic | None
) -> list[Tensor]:
    """Piece i goes to rank i; the sizes may differ and may be zero."""
    flat = torch.cat(list(pieces))
    got = flat.new_empty(sum(expect))
    sizes = [piece.numel() for piece in pieces]
    comm.all_to_all_single(got, flat, list(expect), sizes, group=group.handle)
    if traffic is not None:
        kept = sizes[group.rank]
        traffic.add("all_to_all", (flat.numel() - kept) * flat.element_size())
    return list(torch.split(got, list(expect)))


def _whole_mask(
    mask: Tensor,
    q: Tensor,
    heads: Sequence[int],
    lengths: Sequence[int],
    group: Group,
    traffic: Traffic | None,
) -> Tensor:
    """This rank's head rows of the mask for all queries of the Ulysses group."""
    full = as_4d(mask)
    # A rank with a single query can't tell its row from a broadcast one: ask the others.
    if agreed(full.shape[2] != 1, group, "any", q.device):
        own = full.expand(-1, -1, q.shape[2], -1)
        full = gather(own, 2, group, lengths, traffic)
    if full.shape[1] == q.shape[1] and full.shape[1] != 1:
        full = torch.split(full, list(heads), 1)[group.rank]
    return full
