"""Guidance parallelism: the rows of both branches shared out over ranks, skipped ones left out.

A pipeline that runs its branches in two calls is served too: what its unconditional call differed
by in one step is taken to hold in the next, so that both can run at the first call, and checked at
the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from ...kernels.guidance import branches
from ...kernels.parallel import Group, Traffic
from .rows import first_tensor, select, with_first


class Parallel:
    """Runs both branches' rows over the ranks of `group`; every rank gets every row's output."""

    def __init__(self, group: Group, traffic: Traffic | None = None) -> None:
        self._group = group
        self._traffic = traffic
        self._differs: dict[str, Any] = {}
        self._ahead: tuple[dict[str, Any], Tensor] | None = None

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

        cond, uncond = self._shared(run, needed, count)
        return cond, uncond, last[-1]

    def _shared(
        self, run: Callable[[Mapping[str, Tensor]], Tensor], needed: Sequence[int], count: int
    ) -> tuple[Tensor, Tensor]:
        """Rows by number: unconditional ones from 0, conditional ones from `count`."""
        rows = torch.arange(count)
        wants = torch.zeros(count, dtype=torch.bool)
        wants[list(needed)] = True
        cond, uncond = branches(
            run, {"row": rows + count}, {"row": rows}, wants, self._group, self._traffic
        )
        return cond, uncond[list(needed)]

    def first(
        self,
        original: Callable[..., Any],
        arguments: Mapping[str, Any],
        needed: Sequence[int],
        count: int,
    ) -> Any | None:
        """Both branches at a step's first call, if an earlier step has shown the second's.

        Gives the output with the conditional rows; None where the calls must run by themselves.
        """
        self._ahead = None
        other = {**arguments, **self._differs}
        if not needed or not self._differs or not _fit(arguments, other, self._differs):
            return None
        last: list[Any] = []

        def run(chosen: Mapping[str, Tensor]) -> Tensor:
            output = original(**_mixed(other, arguments, chosen["row"], count))
            last.append(output)
            return first_tensor(output)

        cond, uncond = self._shared(run, needed, count)
        self._ahead = (other, uncond)
        return with_first(last[-1], cond)

    def second(self, cond: Mapping[str, Any], arguments: Mapping[str, Any]) -> Tensor | None:
        """The unconditional rows, if they ran at the first call; learns how this call differs."""
        ahead, self._ahead = self._ahead, None
        self._differs = {
            name: value for name, value in arguments.items() if not _same(value, cond.get(name))
        }
        if ahead is None:
            return None
        taken, uncond = ahead
        fits = all(_same(value, taken.get(name)) for name, value in arguments.items())
        return uncond if fits else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or (a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b))
    return a is b or (type(a) is type(b) and not isinstance(a, Tensor) and bool(a == b))


def _fit(cond: Mapping[str, Any], other: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Whether the branches' rows can stand in one batch: they differ in tensors of one shape."""
    return all(
        isinstance(cond.get(name), Tensor)
        and isinstance(other[name], Tensor)
        and cond[name].shape == other[name].shape
        for name in names
    )


def _mixed(
    uncond: Mapping[str, Any], cond: Mapping[str, Any], rows: Tensor, count: int
) -> dict[str, Any]:
    """The arguments of some rows of both branches, unconditional ones counted from 0."""
    low, high = rows[rows < count], rows[rows >= count] - count
    parts = [select(uncond, low, count)] if len(low) else []
    parts += [select(cond, high, count)] if len(high) else []
    if len(parts) == 1:
        return parts[0]
    first, second = parts if int(rows[0]) < count else parts[::-1]
    return {name: _joined(first[name], second[name], uncond[name], count) for name in first}


def _joined(a: Any, b: Any, whole: Any, count: int) -> Any:
    """One argument of both parts: joined where it has a row for each picture."""
    if isinstance(whole, Tensor):
        return torch.cat([a, b]) if whole.dim() > 0 and whole.shape[0] == count else a
    if isinstance(whole, list) and len(cast("list[Any]", whole)) == count:
        return [*a, *b]
    return a
