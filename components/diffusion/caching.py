"""Step caching: a picture whose denoiser would hardly change keeps what its blocks added last.

Two ways to tell: "timestep" adds up how much the first block's modulated input changes (TeaCache,
arXiv 2411.19108); "first_block" runs one block and looks at what it added (ParaAttention). Each
picture of a batch, and each branch of its guidance, decides for itself; ranks decide together. All
state lives in one run, so that a request that fails leaves nothing behind.

diffusers' own hooks (first block, TaylorSeer, MagCache, PAB, FasterCache) don't serve here: they
decide for a batch as one, keep their state on the model after a failure, expect as many rows as
before, which guidance that is skipped breaks, and only SeaCache's ranks agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ...kernels.cache import (
    accumulate,
    difference_sums,
    extrapolated,
    relative_difference,
    rescaled,
)
from ...kernels.parallel import Group, agreed_sum
from ..base import Options
from ..errors import BadInput
from .blocks import Layout, blocks_of, hidden_of, innermost, layout_of, untouched, with_hidden
from .boundary import replaced
from .rows import RowKey, bind, select
from .skip import Step


class CacheOptions(Options):
    """`threshold` is a relative L1 change: higher saves more and costs more in quality.

    The first `warmup` and the last `last` steps always compute, and so does every one after `most`
    kept ones in a row. `coefficients`, highest power first, are a model's polynomial from input
    change to output change, for "timestep".
    """

    kind: Literal["timestep", "first_block"] = "first_block"
    threshold: float = Field(default=0.1, ge=0)
    warmup: int = Field(default=1, ge=1)
    last: int = Field(default=1, ge=0)
    most: int = Field(default=3, ge=1)
    coefficients: tuple[float, ...] = (1.0, 0.0)
    order: int = Field(default=0, ge=0, le=2)


@dataclass(slots=True)
class Hits:
    """Blocks that ran for one picture, of how many, and the calls that were kept."""

    blocks_run: int = 0
    blocks_total: int = 0
    calls_kept: int = 0


@dataclass(slots=True)
class _State:
    step: int
    indicator: Tensor
    total: Tensor = field(default_factory=lambda: torch.zeros(1))
    kept: int = 0
    residuals: list[tuple[int, Tensor]] = field(default_factory=list[tuple[int, Tensor]])


class _Probed(Exception):
    """Carries the first attention's input out of a block."""

    def __init__(self, seen: Tensor) -> None:
        self.seen = seen


class StepCache:
    """The caches of one run on one denoiser; `options` holds one per picture, None for none."""

    def __init__(
        self,
        denoiser: nn.Module,
        options: Sequence[CacheOptions | None],
        *,
        share: Group | None = None,
    ) -> None:
        self.hits = [Hits() for _ in options]
        self._options = options
        self._share = share
        self._blocks = blocks_of(denoiser)
        self._layouts = [layout_of(block) for block in self._blocks]
        self._states: dict[RowKey, _State] = {}
        self._step = Step(0, 1, None)
        self._keys: Sequence[RowKey] = ()
        self._compute = torch.ones(0, dtype=torch.bool)
        self._base: Tensor | None = None
        self._probing = False
        if len(self._blocks) < 2 or None in self._layouts:
            raise BadInput(
                f"{type(denoiser).__name__} can't be cached by blocks: it has no plain list of"
                " transformer blocks of a known kind",
                where="cache",
            )
        kinds = {one.kind for one in options if one}
        if len(kinds) > 1:
            raise BadInput("one batch can't mix kinds of caching", where="cache")
        self._kind = next(iter(kinds), "first_block")

    def before(self, step: Step, rows: Sequence[RowKey]) -> None:
        """The denoiser call that comes has these rows."""
        self._step, self._keys = step, rows

    @contextmanager
    def attached(self) -> Generator[None]:
        """While entered, the denoiser's blocks are watched."""
        with ExitStack() as stack:
            for place, block in enumerate(self._blocks):
                layout = self._layouts[place]
                assert layout is not None
                inner = innermost(block)
                forward = self._forward(place, inner.forward, layout)
                stack.enter_context(replaced(inner, "forward", forward))
            hook = _first_attention(self._blocks[0]).register_forward_pre_hook(
                self._look, with_kwargs=True
            )
            stack.callback(hook.remove)
            yield

    def _look(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        if self._probing:
            raise _Probed(kwargs["hidden_states"] if "hidden_states" in kwargs else args[0])

    def _forward(
        self, place: int, original: Callable[..., Any], layout: Layout
    ) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self._keys:
                # A rank without rows of its own runs one to learn the shape of the result.
                return original(*args, **kwargs)
            arguments = bind(signature, args, kwargs)
            hidden: Tensor = arguments["hidden_states"]
            if hidden.shape[0] != len(self._keys):
                raise BadInput(
                    f"can't be cached: a block got {hidden.shape[0]} rows for {len(self._keys)}",
                    where="cache",
                )
            if place == 0 and self._kind == "first_block":
                output = original(*args, **kwargs)
                self._begin(hidden_of(output, layout), hidden_of(output, layout) - hidden)
                return output
            if place == 0:
                self._begin(hidden, self._probe(original, args, kwargs))
            output = self._run(original, args, kwargs, arguments, layout)
            if place == len(self._blocks) - 1:
                return with_hidden(output, layout, self._end(hidden_of(output, layout)))
            return output

        forward.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return forward

    def _probe(
        self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        self._probing = True
        try:
            original(*args, **kwargs)
        except _Probed as probed:
            return probed.seen
        finally:
            self._probing = False
        raise BadInput("can't be cached: the first block has no attention", where="cache")

    def _run(
        self,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: dict[str, Any],
        layout: Layout,
    ) -> Any:
        """The block for the rows that compute; the others pass through as they are."""
        if bool(self._compute.all()):
            return original(*args, **kwargs)
        whole = untouched(arguments, layout)
        if not bool(self._compute.any()):
            return whole
        rows = self._compute.nonzero().flatten()
        part = original(**select(arguments, rows, len(self._keys)))
        if isinstance(whole, Tensor):
            return whole.index_copy(0, rows.to(whole.device), hidden_of(part, layout))
        return tuple(
            None if new is None else old.index_copy(0, rows.to(old.device), new)
            for old, new in zip(whole, part, strict=True)
        )

    def _begin(self, base: Tensor, indicator: Tensor) -> None:
        """Decide for each row of this call whether its blocks run."""
        self._base = base
        sums = torch.stack([torch.ones(len(self._keys)), torch.zeros(len(self._keys))])
        for row, key in enumerate(self._keys):
            state = self._states.get(key)
            if state is not None and state.indicator.shape == indicator[row : row + 1].shape:
                own = difference_sums(indicator[row : row + 1], state.indicator)
                sums[:, row : row + 1] = own.cpu()
        if self._share is not None:
            # Every rank decides on the same numbers, so none waits in a collective alone.
            device = base.device
            sums = agreed_sum(sums.to(device), self._share).cpu()
        changes = relative_difference(sums)
        self._compute = torch.tensor(
            [
                self._decide(key, changes[row : row + 1], indicator[row : row + 1])
                for row, key in enumerate(self._keys)
            ]
        )

    def _decide(self, key: RowKey, change: Tensor, indicator: Tensor) -> bool:
        """Whether this row's blocks run, and what is remembered of it for the next step."""
        options, step, hits = self._options[key[1]], self._step, self.hits[key[1]]
        hits.blocks_total += len(self._blocks)
        if options is None:
            hits.blocks_run += len(self._blocks)
            return True
        adds_up = options.kind == "timestep"
        state = self._states.get(key)
        # A branch that was left out last step has nothing fresh to compare with.
        stale = state is None or not state.residuals or state.step != step.index - 1
        forced = step.index < options.warmup or step.index >= step.total - options.last
        if state is None:
            state = self._states[key] = _State(step.index, indicator.detach().clone())
        change = rescaled(change, options.coefficients) if adds_up else change
        state.total, needs = accumulate(state.total, change, options.threshold)
        compute = stale or forced or bool(needs) or state.kept >= options.most
        if stale:
            state.residuals.clear()
        state.step, state.kept = step.index, 0 if compute else state.kept + 1
        if compute or not adds_up:
            state.total = torch.zeros_like(change)
        if compute or adds_up:
            state.indicator = indicator.detach().clone()
        hits.blocks_run += len(self._blocks) if compute else int(not adds_up)
        hits.calls_kept += not compute
        return compute

    def _end(self, hidden: Tensor) -> Tensor:
        """Take what the blocks added where they ran, give what they added last where not."""
        base = self._base
        assert base is not None
        parts: list[Tensor] = []
        for row, key in enumerate(self._keys):
            state = self._states.get(key)
            own = hidden[row : row + 1]
            if state is not None and not bool(self._compute[row]):
                own = base[row : row + 1] + extrapolated(state.residuals, self._step.index)
            elif state is not None:
                options = self._options[key[1]]
                fresh = (own - base[row : row + 1]).detach()
                kept = state.residuals[-options.order :] if options and options.order else []
                state.residuals = [*kept, (self._step.index, fresh)]
            parts.append(own)
        self._base = None
        return torch.cat(parts)


def _first_attention(block: nn.Module) -> nn.Module:
    for name, part in block.named_children():
        if name.startswith("attn"):
            return part
    raise BadInput("can't be cached: the first block has no attention", where="cache")
