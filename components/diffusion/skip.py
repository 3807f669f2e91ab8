"""When a picture's unconditional branch is run: by step, by noise, by agreement, or now and then.

Classifier-free guidance u + s (c - u) costs two denoiser rows a step. Where u is left out, c stands
in for it (which leaves c, guidance off) or c less the last difference c - u. Interval in noise:
Kynkäänniemi et al., arXiv 2404.07724; in steps: Step AG, 2506.08351; by agreement: Adaptive
Guidance, 2312.12487.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from ..base import Options


class GuidanceOptions(Options):
    """Where guidance acts; all conditions must hold. The defaults skip nothing.

    `interval` is in fractions of the steps: it acts where int(start N) <= step < int(stop N).
    `sigmas` is a range of noise levels as the scheduler counts them, both ends included. `agree`
    ends guidance for good once the cosine of the branches' outputs reaches it. `every` n runs the
    unconditional branch at each n-th step of those and reuses the difference between. `outside`
    says what happens where guidance doesn't act: "off", or "reuse" of the last difference.
    """

    interval: tuple[float, float] = (0.0, 1.0)
    sigmas: tuple[float, float] | None = None
    agree: float | None = Field(default=None, gt=0, le=1)
    every: int = Field(default=1, ge=1, le=64)
    outside: Literal["off", "reuse"] = "off"

    @model_validator(mode="after")
    def _ordered(self) -> GuidanceOptions:
        start, stop = self.interval
        if not 0 <= start <= stop <= 1:
            raise ValueError(f"interval: 0 <= start <= stop <= 1 is needed, got {start}, {stop}")
        if self.sigmas is not None and not 0 <= self.sigmas[0] <= self.sigmas[1]:
            raise ValueError(f"sigmas: 0 <= low <= high is needed, got {self.sigmas}")
        return self

    @property
    def skips(self) -> bool:
        """Whether a step can be left out at all."""
        return self != GuidanceOptions()


@dataclass(frozen=True, slots=True)
class Step:
    """Where a run is: `index` of `total` steps; `sigma` None where the scheduler has none."""

    index: int
    total: int
    sigma: float | None


@dataclass(slots=True)
class Spent:
    """Denoiser rows of one picture, and those that it would have had without skipping."""

    rows_run: int = 0
    rows_total: int = 0

    @property
    def rows_saved(self) -> int:
        return self.rows_total - self.rows_run


@dataclass(slots=True)
class RowGuidance:
    """The guidance of one picture during one run; it starts afresh with every run.

    `settled` ends guidance for good; ranks that share a picture must set it alike.
    """

    options: GuidanceOptions
    spent: Spent = field(default_factory=Spent)
    difference: Tensor | None = None
    settled: bool = False
    acting: bool = False
    _guided: int = 0
    _asked: int = -1
    _needs: bool = True

    def needs(self, step: Step) -> bool:
        """Whether this step must run the unconditional branch; the same answer all step long."""
        if self._asked != step.index:
            self._asked = step.index
            self.acting = self._acts(step)
            self._needs = self.acting and (
                self._guided % self.options.every == 0 or self.difference is None
            )
            self._guided += self.acting
        return self._needs

    def _acts(self, step: Step) -> bool:
        start, stop = self.options.interval
        inside = int(start * step.total) <= step.index < int(stop * step.total)
        if inside and self.options.sigmas is not None:
            if step.sigma is None:
                raise ValueError("guidance.sigmas: this scheduler has no noise levels")
            low, high = self.options.sigmas
            inside = low <= step.sigma <= high
        return inside and not self.settled

    @property
    def remembers(self) -> bool:
        """Whether differences are kept for later steps."""
        return self.options.every > 1 or self.options.outside == "reuse"

    def stand_in(self, cond: Tensor) -> Tensor:
        """What takes the unconditional output's place when it isn't run."""
        reuses = self.acting or self.options.outside == "reuse"
        if self.difference is None or not reuses:
            return cond
        return cond - self.difference

    def learn(self, cond: Tensor, uncond: Tensor) -> bool:
        """Take note of both outputs of a step; whether they agree enough to end guidance."""
        if self.remembers:
            self.difference = cond - uncond
        if self.options.agree is None:
            return False
        return agreement(cond, uncond) >= self.options.agree


def agreement(a: Tensor, b: Tensor) -> float:
    """The cosine between two outputs, as flat vectors in float32."""
    flat = torch.nn.functional.cosine_similarity(a.float().flatten(), b.float().flatten(), dim=0)
    return float(flat)
