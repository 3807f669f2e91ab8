"""Classifier-free guidance across ranks: the rows of both branches shared out evenly.

A full step of a batch of n has 2n rows and two ranks take n each, which is the usual CFG
parallelism. Where some or all rows skip their unconditional branch fewer rows are left, and they
are shared out again, so that no rank idles on a skipped step.
Source of guidance: Ho and Salimans, arXiv 2207.12598.
"""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from .parallel import Group, Traffic, comm, gather, own_part, split_sizes

Arguments = Mapping[str, Tensor]


def branches(
    run: Callable[[Arguments], Tensor],
    cond: Arguments,
    uncond: Arguments,
    needed: Tensor,
    group: Group,
    traffic: Traffic | None = None,
) -> tuple[Tensor, Tensor]:
    """The denoiser's output for both branches, (rows, ...) each, the same on every rank.

    `cond` and `uncond` hold the denoiser's tensors by name, batch first, the same on every rank.
    `needed`, bool (rows,), says which rows want guidance; a row that any rank wants is wanted.
    The others get their conditional output for the unconditional one, which leaves
    u + s (c - u) = c for every scale s.
    """
    wanted = _agreed_rows(needed, group)
    work = {name: torch.cat((cond[name], uncond[name][wanted])) for name in cond}
    total = needed.shape[0] + int(wanted.sum())
    if total < group.size:
        # Fewer rows than ranks: computing them twice is cheaper than sending them.
        out = run(work)
    else:
        part = run({name: own_part(tensor, 0, group) for name, tensor in work.items()})
        out = gather(part, 0, group, split_sizes(total, group.size), traffic)
    conditional, rest = torch.split(out, [needed.shape[0], total - needed.shape[0]])
    unconditional = conditional.clone()
    unconditional[wanted] = rest
    return conditional, unconditional


def guide(cond: Tensor, uncond: Tensor, scale: Tensor) -> Tensor:
    """u + s (c - u) with one scale per row, (rows,)."""
    per_row = scale.to(cond.dtype).view(-1, *(1 for _ in cond.shape[1:]))
    return uncond + per_row * (cond - uncond)


def rows_run(needed: Tensor) -> tuple[int, int]:
    """Denoiser rows of this step, and those of a step without skipping."""
    return needed.shape[0] + int(needed.sum()), 2 * needed.shape[0]


def _agreed_rows(needed: Tensor, group: Group) -> Tensor:
    if group.size == 1:
        return needed
    flags = needed.to(torch.int32)
    comm.all_reduce(flags, dist.ReduceOp.MAX, group=group.handle)
    return flags.bool()
