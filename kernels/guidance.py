"""Classifier-free guidance across ranks: the rows of both branches shared out.

A full step of a batch of n has 2n rows and two ranks take n each, which is the usual CFG
parallelism. Where some rows skip their unconditional branch fewer are left, and they are shared out
again, so that no rank idles on a skipped step. Rows that leave something behind for their next
step (caches) stay with their rank instead.
Source of guidance: Ho and Salimans, arXiv 2207.12598.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .parallel import Group, Traffic, gather, split_sizes

CONDITIONAL, UNCONDITIONAL = 0, 1


def even_owners(total: int, size: int) -> list[int]:
    """The rank of each of `total` rows, evenly, neighbours together."""
    return [rank for rank, count in enumerate(split_sizes(total, size)) for _ in range(count)]


def steady_owner(branch: int, row: int, size: int) -> int:
    """The rank of one branch of one row, the same in every step.

    Even for a step with both branches of all rows and for one with the conditional ones alone.
    """
    return (branch + row) % size


def by_owner(
    run: Callable[[Tensor], Tensor],
    owners: Sequence[int],
    group: Group,
    *,
    empty: Tensor | None = None,
    traffic: Traffic | None = None,
) -> Tensor:
    """Every row's output, in order and the same on every rank, each run by the rank it belongs to.

    `run` gets the numbers of this rank's rows. A rank that owns none sends `empty`, which is an
    output of no rows; without it, it runs the first row to learn the shape.
    """
    own = own_rows(owners, group)
    part = None if own else empty
    if part is None:
        part = run(torch.tensor(own or [0]))[: len(own)]
    every = gather(part, 0, group, [owners.count(rank) for rank in range(group.size)], traffic)
    order = sorted(range(len(owners)), key=lambda place: owners[place])
    back = torch.empty(len(order), dtype=torch.int64)
    back[order] = torch.arange(len(order))
    return every[back.to(every.device)]


def own_rows(owners: Sequence[int], group: Group) -> list[int]:
    """The numbers of the rows that belong to this rank."""
    return [place for place, owner in enumerate(owners) if owner == group.rank]
