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

from ...kernels.guidance import (
    CONDITIONAL,
    UNCONDITIONAL,
    by_owner,
    even_owners,
    own_rows,
    steady_owner,
)
from ...kernels.parallel import Group, Traffic
from .rows import RowKey, first_tensor, has_rows, select, with_first

Tell = Callable[[Sequence[RowKey]], None]
"""Called once before each shared call, on every rank, with the rows that this rank runs."""

Call = Callable[[Sequence[RowKey]], Any]
"""Runs the denoiser on these rows."""

Arguments = Mapping[str, Any]
_BRANCHES = {"cond": CONDITIONAL, "uncond": UNCONDITIONAL}


class Parallel:
    """Runs rows over the ranks of `group`; every rank gets every row's output.

    `steady` keeps each row on one rank through the run, for caches that remember it there.
    """

    def __init__(
        self, group: Group, *, steady: bool = False, traffic: Traffic | None = None
    ) -> None:
        self._group = group
        self._steady = steady
        self._traffic = traffic
        self._differs: dict[str, Any] = {}
        self._ahead: tuple[Arguments, Tensor] | None = None
        self._form: Any = None

    def batched(
        self,
        original: Callable[..., Any],
        arguments: Arguments,
        needed: Sequence[int],
        count: int,
        tell: Tell,
    ) -> tuple[Tensor, Tensor, Any]:
        """Conditional rows, the unconditional rows of the pictures in `needed`, and an output."""

        def call(keys: Sequence[RowKey]) -> Any:
            places = [row + count * (branch == "cond") for branch, row in keys]
            return original(**select(arguments, torch.tensor(places), 2 * count))

        out = self._run(rows_of(needed, count), call, tell)
        return out[:count], out[count:], self._form

    def first(
        self,
        original: Callable[..., Any],
        arguments: Arguments,
        needed: Sequence[int],
        count: int,
        tell: Tell,
    ) -> Any:
        """A step's first call: the output of the conditional rows.

        If an earlier step has shown how the second call differs, that runs along.
        """
        self._ahead = None
        other = {**arguments, **self._differs}
        keys = rows_of(needed, count)
        if not self._differs or not self._together(keys, arguments, other):
            keys = keys[:count]

        def call(own: Sequence[RowKey]) -> Any:
            return original(**_mixed(other, arguments, own, count))

        out = self._run(keys, call, tell)
        if len(keys) > count:
            self._ahead = (other, out[count:])
        return with_first(self._form, out[:count])

    def second(
        self,
        original: Callable[..., Any],
        cond: Arguments,
        arguments: Arguments,
        needed: Sequence[int],
        count: int,
        tell: Tell,
    ) -> Tensor | None:
        """The unconditional rows of the pictures in `needed`; learns how this call differs."""
        ahead, self._ahead = self._ahead, None
        self._differs = {
            name: value for name, value in arguments.items() if not _same(value, cond.get(name))
        }
        if not needed:
            return None
        if ahead is not None:
            taken, uncond = ahead
            if all(_same(value, taken.get(name)) for name, value in arguments.items()):
                return uncond

        def call(own: Sequence[RowKey]) -> Any:
            return original(**select(arguments, torch.tensor([row for _, row in own]), count))

        return self._run(rows_of(needed, count)[count:], call, tell)

    def _run(self, keys: Sequence[RowKey], call: Call, tell: Tell) -> Tensor:
        owners = self._owners(keys)
        if owners is None:
            tell(keys)
            return first_tensor(self._noted(call(keys)))
        tell([keys[place] for place in own_rows(owners, self._group)])

        def run(rows: Tensor) -> Tensor:
            return first_tensor(self._noted(call([keys[int(row)] for row in rows])))

        empty = None if self._form is None else first_tensor(self._form)
        return by_owner(run, owners, self._group, empty=empty, traffic=self._traffic)

    def _noted(self, output: Any) -> Any:
        """Remember what an output looks like, without its rows."""
        self._form = with_first(output, first_tensor(output)[:0].clone())
        return output

    def _owners(self, keys: Sequence[RowKey]) -> list[int] | None:
        """The rank of each row; None where every rank runs them all."""
        size = self._group.size
        if self._steady:
            return [steady_owner(_BRANCHES[branch], row, size) for branch, row in keys]
        # Fewer rows than ranks: computing them twice is cheaper than sending them.
        return even_owners(len(keys), size) if len(keys) >= size else None

    def _together(self, keys: Sequence[RowKey], cond: Arguments, other: Arguments) -> bool:
        """Whether both calls' rows can run in one: a rank with both branches must join them."""
        owners = self._owners(keys)
        held = {(rank, branch) for rank, (branch, _) in zip(owners or [], keys, strict=False)}
        if owners is not None and len(held) == len(set(owners)):
            return True
        return all(_fit(cond.get(name), other[name]) for name in self._differs)


def rows_of(needed: Sequence[int], count: int) -> list[RowKey]:
    """All conditional rows, then the unconditional ones that are needed."""
    return [*(("cond", row) for row in range(count)), *(("uncond", row) for row in needed)]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        both = isinstance(a, Tensor) and isinstance(b, Tensor)
        return both and a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in cast("Arguments", a))
    if isinstance(a, list | tuple):
        return len(cast("list[Any]", a)) == len(b) and all(map(_same, cast("list[Any]", a), b))
    return bool(a == b)


def _fit(cond: Any, other: Any) -> bool:
    return isinstance(cond, Tensor) and isinstance(other, Tensor) and cond.shape == other.shape


def _mixed(
    uncond: Arguments, cond: Arguments, keys: Sequence[RowKey], count: int
) -> dict[str, Any]:
    """The arguments of some rows of both branches, conditional ones first."""
    parts: list[dict[str, Any]] = []
    for branch, arguments in (("cond", cond), ("uncond", uncond)):
        rows = [row for name, row in keys if name == branch]
        if rows:
            parts.append(select(arguments, torch.tensor(rows), count))
    if len(parts) == 1:
        return parts[0]
    first, second = parts
    return {name: _joined(name, first[name], second[name], cond[name], count) for name in first}


def _joined(name: str, a: Any, b: Any, whole: Any, count: int) -> Any:
    """One argument of both parts: joined where it has a row for each picture."""
    if isinstance(whole, Tensor):
        return torch.cat([a, b]) if has_rows(name, whole, count) else a
    if isinstance(whole, list) and len(cast("list[Any]", whole)) == count:
        return [*a, *b]
    return a
