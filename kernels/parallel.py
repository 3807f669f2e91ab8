"""Process groups for sequence and guidance parallelism, and what every strategy shares.

Ranks are laid out cfg x ring x ulysses with ulysses innermost: the all-to-all, which can't be
hidden behind compute, stays between neighbours. Works on gloo (CPU) and NCCL.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

# torch's own annotations of the collectives are partial.
comm: Any = dist


@dataclass(slots=True)
class Traffic:
    """Payload bytes that this rank handed to the network, by kind of message."""

    bytes_sent: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, kind: str, n_bytes: int) -> None:
        self.bytes_sent[kind] = self.bytes_sent.get(kind, 0) + n_bytes

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes_sent.values())


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as seen from one rank: `ranks` are global, in order of the sequence."""

    handle: dist.ProcessGroup
    ranks: tuple[int, ...]
    rank: int

    @property
    def size(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True, slots=True)
class Mesh:
    """The three groups that one rank belongs to."""

    cfg: Group
    ring: Group
    ulysses: Group


def make_mesh(cfg: int = 1, ring: int = 1, ulysses: int = 1) -> Mesh:
    """Cut the world into cfg x ring x ulysses; every rank must call this, with the same sizes."""
    world, rank = dist.get_world_size(), dist.get_rank()
    if min(cfg, ring, ulysses) < 1 or cfg * ring * ulysses != world:
        raise ValueError(
            f"make_mesh: cfg {cfg} x ring {ring} x ulysses {ulysses} must be the world size {world}"
        )
    grid = torch.arange(world).view(cfg, ring, ulysses)
    return Mesh(
        cfg=_own(grid.flatten(1).T, rank),
        ring=_own(grid.transpose(1, 2).reshape(-1, ring), rank),
        ulysses=_own(grid.reshape(-1, ulysses), rank),
    )


def _own(rows: Tensor, rank: int) -> Group:
    """Create a group per row (all ranks take part in each) and return the one holding `rank`."""
    lines = [[int(one) for one in row] for row in rows]
    found: Group | None = None
    for line in lines:
        handle = comm.new_group(list(line))
        if rank in line and isinstance(handle, dist.ProcessGroup):
            found = Group(handle, tuple(line), line.index(rank))
    if found is None:
        raise RuntimeError(f"make_mesh: rank {rank} is in none of {lines}")
    return found


def split_sizes(total: int, parts: int) -> list[int]:
    """Sizes of `parts` nearly equal pieces, the larger first: 27 in 2 is [14, 13]."""
    whole, rest = divmod(total, parts)
    return [whole + (part < rest) for part in range(parts)]


def own_part(x: Tensor, dim: int, group: Group) -> Tensor:
    """This rank's piece of a tensor that all ranks hold, by `split_sizes`."""
    return torch.split(x, split_sizes(x.shape[dim], group.size), dim)[group.rank]


def gather_lengths(length: int, group: Group, device: torch.device) -> list[int]:
    """Every rank's length. Not cached: the next request's may differ on another rank only."""
    if group.size == 1:
        return [length]
    mine = torch.tensor([length], dtype=torch.int64, device=device)
    every = [torch.empty_like(mine) for _ in group.ranks]
    comm.all_gather(every, mine, group=group.handle)
    return [int(one) for one in every]


def gather(
    x: Tensor, dim: int, group: Group, lengths: Sequence[int], traffic: Traffic | None = None
) -> Tensor:
    """Concatenate every rank's piece along `dim`; pieces may differ in length, or be empty."""
    if group.size == 1:
        return x
    longest = max(lengths)
    moved = x.movedim(dim, 0)
    padded = moved.new_zeros((longest, *moved.shape[1:]))
    padded[: moved.shape[0]] = moved
    as_bytes = padded.view(torch.uint8) if padded.dtype == torch.bool else padded
    every = [torch.empty_like(as_bytes) for _ in group.ranks]
    comm.all_gather(every, as_bytes, group=group.handle)
    if traffic is not None:
        traffic.add("all_gather", padded.nbytes * (group.size - 1))
    pieces = [part.view(x.dtype)[:n] for part, n in zip(every, lengths, strict=True)]
    return torch.cat(pieces).movedim(0, dim)


def agreed(value: bool, group: Group, rule: Literal["any", "all"], device: torch.device) -> bool:
    """One answer for the whole group, so that no rank waits in a collective that others skip.

    A decision made from rank-local numbers (whether to reuse a cached step, whether guidance is
    still needed) must pass through here before it decides about communication.
    """
    if group.size == 1:
        return value
    flag = torch.tensor([int(value)], dtype=torch.int32, device=device)
    operation = dist.ReduceOp.MAX if rule == "any" else dist.ReduceOp.MIN
    comm.all_reduce(flag, operation, group=group.handle)
    return bool(flag.item())


def agreed_sum(values: Tensor, group: Group) -> Tensor:
    """Sum over the group of per-row numbers, e.g. the two sums of a relative difference."""
    total = values.clone()
    if group.size > 1:
        comm.all_reduce(total, group=group.handle)
    return total
