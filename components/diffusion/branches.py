"""Guidance parallelism: the rows of both branches shared out over ranks, skipped ones left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...kernels.guidance import branches
from ...kernels.parallel import Group, Traffic
from .rows import first_tensor, select


class Parallel:
    """Runs a doubled batch over the ranks of `group`; every rank gets every row's output."""

    def __init__(self, group: Group, traffic: Traffic | None = None) -> None:
        self._group = group
        self._traffic = traffic

    def batched(
        self,
        original: Callable[..., Any],
        arguments: Mapping[str, Any],
        needed: Sequence[int],
        count: int,
    ) -> tuple[Tensor, Tensor, Any]:
        """Conditional rows, the unconditional rows of the pictures in `needed`, and an output.

        A rank runs its share of whole rows, so the pictures are those of one rank.
        """
        last: list[Any] = []

        def run(chosen: Mapping[str, Tensor]) -> Tensor:
            output = original(**select(arguments, chosen["row"], 2 * count))
            last.append(output)
            return first_tensor(output)

        rows = torch.arange(count)
        wants = torch.zeros(count, dtype=torch.bool)
        wants[list(needed)] = True
        cond, uncond = branches(
            run, {"row": rows + count}, {"row": rows}, wants, self._group, self._traffic
        )
        return cond, uncond[list(needed)], last[-1]
