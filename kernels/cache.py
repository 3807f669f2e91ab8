"""Tensor maths of step caching: how much a step changed, and whether it must be computed.

Everything is per row, so requests in one batch decide for themselves, and comes as two sums that
can be added over ranks (`parallel.agreed_sum`) before the ratio is taken, so that ranks that hold
parts of one picture decide alike. Sources: TeaCache (arXiv 2411.19108), first-block caching as in
ParaAttention; carrying values on along their changes: TaylorSeer (arXiv 2503.06923).
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def difference_sums(now: Tensor, before: Tensor) -> Tensor:
    """(2, rows) float32: sum of |now - before| and of |before| over all but the first axis."""
    if now.shape != before.shape:
        raise ValueError(f"difference_sums: {tuple(now.shape)} against {tuple(before.shape)}")
    changed = (now.float() - before.float()).abs().flatten(1).sum(1)
    return torch.stack((changed, before.float().abs().flatten(1).sum(1)))


def relative_difference(sums: Tensor) -> Tensor:
    """Relative L1 per row, (rows,); infinite where there was nothing before, NaN stays NaN."""
    changed, size = sums.unbind()
    return torch.where((size == 0) & (changed == 0), torch.zeros_like(changed), changed / size)


def rescaled(difference: Tensor, coefficients: Sequence[float]) -> Tensor:
    """A model's polynomial from input change to output change, highest power first (TeaCache)."""
    total = torch.zeros_like(difference)
    for coefficient in coefficients:
        total = total * difference + coefficient
    return total


def accumulate(total: Tensor, difference: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Running totals after this step, and which rows must compute: those not below the threshold.

    A row that computes starts again from zero; NaN always computes.
    """
    after = total + difference
    compute = ~(after < threshold)
    return torch.where(compute, torch.zeros_like(after), after), compute


def extrapolated(points: Sequence[tuple[int, Tensor]], at: int) -> Tensor:
    """The polynomial through tensors at different steps, at another step (Lagrange's form).

    One point gives itself, two the straight line through both.
    """
    total: Tensor | None = None
    for step, value in points:
        weight = 1.0
        for other, _ in points:
            weight *= (at - other) / (step - other) if other != step else 1.0
        total = value * weight if total is None else total + value * weight
    if total is None:
        raise ValueError("extrapolated: no points")
    return total
