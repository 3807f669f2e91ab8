"""The precision policy: steps x layers x operation -> number format, as one readable object.

Full precision wherever no rule says otherwise, and always in the first and last steps and layers,
where errors cost most (ModelOpt's and xDiT's practice).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from ...kernels import dispatch
from ...kernels.linear import LinearFormat, QuantisedWeight, quantise_weight, quantised_linear
from ...kernels.request import Precision
from ..base import Options
from ..errors import BadInput
from .blocks import blocks_of
from .boundary import replaced
from .rows import RowKey
from .skip import Step

Share = tuple[float, float]


class PrecisionRule(Options):
    """Formats of `qk` and `pv` (attention's products) and `linear` layers, None to leave one as is.

    It holds for a share of the steps and one of the layers: `steps: [0.2, 0.9]` is from 20 % of
    the steps on, up to 90 %.
    """

    steps: Share = (0.0, 1.0)
    layers: Share = (0.0, 1.0)
    qk: Literal["full", "int8", "fp8"] | None = None
    pv: Literal["full", "fp8"] | None = None
    linear: Literal["full"] | LinearFormat | None = None

    @model_validator(mode="after")
    def _ordered(self) -> PrecisionRule:
        for name, (low, high) in (("steps", self.steps), ("layers", self.layers)):
            if not 0 <= low <= high <= 1:
                raise ValueError(f"{name}: 0 <= low <= high <= 1 is needed, got {low}, {high}")
        if self.qk is None and self.pv is None and self.linear is None:
            raise ValueError("a rule says nothing: give qk, pv or linear")
        return self


@dataclass(frozen=True, slots=True)
class Formats:
    """What one layer uses in one step."""

    qk: Literal["full", "int8", "fp8"] = "full"
    pv: Literal["full", "fp8"] = "full"
    linear: Literal["full"] | LinearFormat = "full"

    @property
    def backend(self) -> str | None:
        """The attention backend's name in diffusers' dispatcher, None for diffusers' own."""
        precision = Precision(qk=self.qk, pv=self.pv)
        return dispatch.named(precision) if precision.quantised else None


class PrecisionPolicy(Options):
    """Rules in order, a later one over an earlier one, inside what `full_…` keeps at full."""

    rules: list[PrecisionRule] = Field(min_length=1, max_length=32)
    full_first_steps: int = Field(default=1, ge=0)
    full_last_steps: int = Field(default=1, ge=0)
    full_first_layers: int = Field(default=1, ge=0)
    full_last_layers: int = Field(default=1, ge=0)

    def formats(self, step: Step, layer: int, layers: int) -> Formats:
        """What layer `layer` of `layers` uses in this step."""
        early = step.index < self.full_first_steps or layer < self.full_first_layers
        late = (
            step.index >= step.total - self.full_last_steps
            or layer >= layers - self.full_last_layers
        )
        found = Formats()
        if early or late:
            return found
        for rule in self.rules:
            if _inside(rule.steps, step.index, step.total) and _inside(rule.layers, layer, layers):
                found = Formats(
                    rule.qk or found.qk, rule.pv or found.pv, rule.linear or found.linear
                )
        return found


def _inside(share: Share, place: int, total: int) -> bool:
    return int(share[0] * total) <= place < int(share[1] * total)


class Weights:
    """Quantised copies of a model's linear weights, made when first asked for, kept with it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], QuantisedWeight] = {}

    def of(self, layer: nn.Linear, form: LinearFormat) -> QuantisedWeight:
        """The layer's weight in this format."""
        key = (id(layer), form)
        if key not in self._made:
            self._made[key] = quantise_weight(layer.weight.detach(), form)
        return self._made[key]


class Applied:
    """A policy at work on one denoiser during one run; `used` counts the layers by format.

    `base` is the attention backend of full precision, None for diffusers' own.
    """

    def __init__(
        self,
        policy: PrecisionPolicy,
        denoiser: nn.Module,
        weights: Weights,
        *,
        base: str | None = None,
    ) -> None:
        self.used: dict[str, int] = {}
        self._base = base
        self._policy = policy
        self._weights = weights
        self._blocks = blocks_of(denoiser)
        self._now: list[Formats] = [Formats() for _ in self._blocks]
        self._at = -1
        if not self._blocks:
            raise BadInput(
                f"{type(denoiser).__name__} has no list of transformer blocks, so layers can't be"
                " told apart",
                where="precision",
            )
        asks = any(rule.qk or rule.pv for rule in policy.rules)
        if asks and not sum(dispatch.use(block, base) for block in self._blocks):
            raise BadInput(
                f"the attention of {type(denoiser).__name__} doesn't ask diffusers' dispatcher, so"
                " its format can't be set",
                where="precision",
            )

    def before(self, step: Step, rows: Sequence[RowKey]) -> None:
        """Give every layer its formats of this step."""
        del rows
        if step.index == self._at:
            return
        self._at = step.index
        for place, block in enumerate(self._blocks):
            wanted = self._policy.formats(step, place, len(self._blocks))
            if wanted.backend != self._now[place].backend:
                dispatch.use(block, wanted.backend or self._base)
            self._now[place] = wanted
            name = f"{wanted.qk}/{wanted.pv}/{wanted.linear}"
            self.used[name] = self.used.get(name, 0) + 1

    @contextmanager
    def attached(self) -> Generator[None]:
        """While entered, linear layers look up their format; leaving puts all back."""
        with ExitStack() as stack:
            for place, block in enumerate(self._blocks):
                for part in block.modules():
                    if type(part) is nn.Linear:
                        forward = self._linear(place, part, part.forward)
                        stack.enter_context(replaced(part, "forward", forward))
                stack.callback(dispatch.use, block, self._base)
            yield

    def _linear(
        self, place: int, layer: nn.Linear, original: Callable[[Tensor], Tensor]
    ) -> Callable[[Tensor], Tensor]:
        def forward(input: Tensor) -> Tensor:
            form = self._now[place].linear
            if form == "full":
                return original(input)
            return quantised_linear(input, self._weights.of(layer, form), layer.bias)

        return forward
