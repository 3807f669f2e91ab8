"""The denoiser's boundary: what a pipeline's own loop calls, made to leave out what it may.

Works under any pipeline that writes guidance as one doubled batch (unconditional rows first, as
diffusers does) or as two calls (conditional first). It checks that order against the prompt's
encoding, and refuses to skip where it can't be sure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from ...kernels.parallel import Group, agreed
from ..errors import BadInput
from .branches import Parallel
from .rows import RowKey, bind, first_tensor, same_rows, select, with_first
from .skip import RowGuidance, Step
from .steps import Steps


class Watcher(Protocol):
    """Who is told of each denoiser call before it runs: caches, precision, cancelling."""

    def before(self, step: Step, rows: Sequence[RowKey]) -> None:
        """The call that comes has these rows, in order; those of other ranks aren't among them."""
        ...


@dataclass(slots=True)
class _Branches:
    """What this step's calls have shown so far."""

    step: int = -1
    calls: int = 0
    cond: Any = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


class Boundary:
    """One run of a pipeline with one `RowGuidance` per picture, in the order of its batch.

    Everything it remembers dies with it; `attached` puts the denoisers back as they were.
    """

    def __init__(
        self,
        pipeline: Any,
        rows: Sequence[RowGuidance],
        steps: Steps,
        *,
        watchers: Sequence[Watcher] = (),
        share: Group | None = None,
        parallel: Parallel | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._rows = rows
        self._steps = steps
        self._watchers = watchers
        self._share = share
        self._parallel = parallel
        self._skips = any(row.options.skips for row in rows)
        self._positive: Tensor | None = None
        self._branches = _Branches()

    @contextmanager
    def attached(self) -> Generator[None]:
        """While entered, the pipeline's denoisers are watched. Nothing else may use them."""
        with ExitStack() as stack:
            stack.enter_context(replaced(self._pipeline, "scheduler", self._steps.scheduler))
            if hasattr(self._pipeline, "encode_prompt"):
                encode = self._encoding(self._pipeline.encode_prompt)
                stack.enter_context(replaced(self._pipeline, "encode_prompt", encode))
            for denoiser in denoisers(self._pipeline):
                forward = self._forward(denoiser.forward)
                stack.enter_context(replaced(denoiser, "forward", forward))
            yield

    def _encoding(self, encode: Callable[..., Any]) -> Callable[..., Any]:
        def encode_prompt(*args: Any, **kwargs: Any) -> Any:
            found = encode(*args, **kwargs)
            if self._positive is None:
                first = found if isinstance(found, Tensor) else found[0]
                self._positive = first if isinstance(first, Tensor) else None
            return found

        encode_prompt.__signature__ = inspect.signature(encode)  # pyright: ignore[reportFunctionMemberAccess]
        return encode_prompt

    def _forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def forward(*args: Any, **kwargs: Any) -> Any:
            arguments = bind(signature, args, kwargs)
            latents = arguments.get("hidden_states", arguments.get("sample"))
            self._steps.begin(arguments.get("timestep"))
            if self._branches.step != self._steps.done:
                self._branches = _Branches(self._steps.done)
            self._branches.calls += 1
            plain = lambda: original(*args, **kwargs)  # noqa: E731 - untouched, for bit equality
            if not isinstance(latents, Tensor):
                return plain()
            if latents.shape[0] == 2 * len(self._rows):
                return self._batched(original, plain, arguments)
            if latents.shape[0] == len(self._rows):
                return self._single(original, plain, arguments)
            if self._skips:
                raise BadInput(
                    f"guidance can't be skipped here: the denoiser got {latents.shape[0]} rows for"
                    f" {len(self._rows)} pictures (one or two branches are known)",
                    where="guidance",
                )
            return plain()

        forward.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return forward

    def _tell(self, rows: Sequence[RowKey]) -> None:
        for watcher in self._watchers:
            watcher.before(self._steps.now, rows)

    def _needed(self) -> list[int]:
        now = self._steps.now
        return [place for place, row in enumerate(self._rows) if row.needs(now)]

    def _batched(
        self, original: Callable[..., Any], plain: Callable[[], Any], arguments: dict[str, Any]
    ) -> Any:
        """One call for both branches, unconditional rows first."""
        count = len(self._rows)
        needed = self._needed()
        if self._skips and self._branches.calls == 1 and self._steps.done == 0:
            states = arguments.get("encoder_hidden_states")
            self._check_order(states[count:] if isinstance(states, Tensor) else None)
        if self._parallel is not None:
            cond, fresh, output = self._parallel.batched(
                original, arguments, needed, count, self._tell
            )
            uncond = self._completed(cond, fresh, needed)
            return with_first(output, torch.cat([uncond, cond]))
        kept = [*needed, *range(count, 2 * count)]
        self._tell([("cond" if row >= count else "uncond", row % count) for row in kept])
        if len(needed) == count:
            output = plain()
            both = first_tensor(output)
            self._completed(both[count:], both[:count], needed)
            return output
        output = original(**select(arguments, torch.tensor(kept), 2 * count))
        both = first_tensor(output)
        fresh, cond = both[: len(needed)], both[len(needed) :]
        uncond = self._completed(cond, fresh, needed)
        return with_first(output, torch.cat([uncond, cond]))

    def _single(
        self, original: Callable[..., Any], plain: Callable[[], Any], arguments: dict[str, Any]
    ) -> Any:
        """A call for one branch: the first of a step is conditional, the second is not."""
        count = len(self._rows)
        if self._branches.calls == 1:
            if self._skips and self._steps.done == 0:
                states = arguments.get("encoder_hidden_states")
                self._check_order(states if isinstance(states, Tensor) else None)
            if self._parallel is not None:
                output = self._parallel.first(
                    original, arguments, self._needed(), count, self._tell
                )
            else:
                self._tell([("cond", row) for row in range(count)])
                output = plain()
            self._branches.cond, self._branches.arguments = output, arguments
            for row in self._rows:
                row.spent.rows_run += 1
                row.spent.rows_total += 1
            return output
        if self._branches.calls > 2 or self._branches.cond is None:
            return self._third(plain)
        cond, needed = first_tensor(self._branches.cond), self._needed()
        if self._parallel is not None:
            shared = self._parallel.second(
                original, self._branches.arguments, arguments, needed, count, self._tell
            )
            fresh = cond[:0] if shared is None else shared
            uncond = self._completed(cond, fresh, needed, second=True)
            return with_first(self._branches.cond, uncond)
        self._tell([("uncond", row) for row in needed])
        if len(needed) == count:
            output = plain()
            fresh = first_tensor(output)
        elif needed:
            output = original(**select(arguments, torch.tensor(needed), count))
            fresh = first_tensor(output)
        else:
            output, fresh = self._branches.cond, cond[:0]
        uncond = self._completed(cond, fresh, needed, second=True)
        return output if len(needed) == count else with_first(output, uncond)

    def _third(self, plain: Callable[[], Any]) -> Any:
        if self._skips:
            raise BadInput(
                "guidance can't be skipped here: this pipeline runs three branches a step",
                where="guidance",
            )
        branch = f"branch {self._branches.calls}"
        self._tell([] if self._parallel else [(branch, row) for row in range(len(self._rows))])
        return plain()

    def _completed(
        self, cond: Tensor, fresh: Tensor, needed: Sequence[int], *, second: bool = False
    ) -> Tensor:
        """The unconditional rows of every picture, run or stood in for, and the rows' account."""
        places = {row: place for place, row in enumerate(needed)}
        parts: list[Tensor] = []
        for row, guidance in enumerate(self._rows):
            own = cond[row : row + 1]
            guidance.spent.rows_total += 1 if second else 2
            guidance.spent.rows_run += (not second) + (row in places)
            if row not in places:
                parts.append(guidance.stand_in(own))
                continue
            part = fresh[places[row] : places[row] + 1]
            parts.append(part)
            agrees = guidance.learn(own, part)
            if guidance.options.agree is not None and self._share is not None:
                agrees = agreed(agrees, self._share, "all", own.device)
            guidance.settled = guidance.settled or agrees
        return torch.cat(parts)

    def _check_order(self, states: Tensor | None) -> None:
        """Refuse where the rows taken for conditional ones hold something else than the prompt."""
        if states is not None and same_rows(states, self._positive) is False:
            raise BadInput(
                "guidance can't be skipped here: this pipeline doesn't run its branches in the"
                " order that diffusers' pipelines do",
                where="guidance",
            )


def denoisers(pipeline: Any) -> list[nn.Module]:
    """The modules that a pipeline's loop calls: a UNet, a transformer, or two of them."""
    names = ("unet", "transformer", "transformer_2")
    return [part for name in names if (part := getattr(pipeline, name, None)) is not None]


@contextmanager
def replaced(holder: Any, name: str, value: Any) -> Generator[None]:
    """Set an attribute of an object, and put it back as it was."""
    own = name in vars(holder) or not hasattr(cast(object, type(holder)), name)
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        if own:
            setattr(holder, name, before)
        else:
            delattr(holder, name)
