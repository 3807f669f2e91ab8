"""A scheduler for one run: counts its steps, knows the noise level, and tells whoever listens."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .rows import first_tensor
from .skip import Step

Listener = Callable[[Step, Tensor, Tensor], None]
"""Called after a step with its place, the new latents and the picture they seem to lead to."""


class Steps:
    """Wraps a scheduler of its own (never the pipeline's) for one run.

    A step is one pass through the pipeline's loop, so one call of `scheduler.step`; second-order
    schedulers, which visit a timestep twice, count both.
    """

    def __init__(self, scheduler: Any, listener: Listener | None = None) -> None:
        self.scheduler = copy.deepcopy(scheduler)
        self.done = 0
        self._listener = listener
        self._start: int | None = None
        self._plain_step: Callable[..., Any] = self.scheduler.step

        # Pipelines look up which arguments `step` takes, so it keeps its signature.
        @functools.wraps(self._plain_step)
        def step(*args: Any, **kwargs: Any) -> Any:
            return self._step(*args, **kwargs)

        self.scheduler.step = step

    def begin(self, timestep: Any) -> None:
        """Learn at the first denoiser call where the run starts (image-to-image starts late)."""
        if self._start is None:
            self._start = self._place(timestep)

    def _place(self, timestep: Any) -> int:
        begin = getattr(self.scheduler, "begin_index", None)
        if begin is not None:
            return int(begin)
        at = torch.as_tensor(timestep).flatten()[:1].cpu()
        known = self.scheduler.timesteps.cpu()
        found = (known == at.to(known.dtype)).nonzero()
        return int(found[0, 0]) if len(found) else 0

    @property
    def total(self) -> int:
        """Steps of this run."""
        return len(self.scheduler.timesteps) - (self._start or 0)

    @property
    def now(self) -> Step:
        """The step that is being made."""
        return Step(self.done, self.total, self._sigma())

    def _sigma(self) -> float | None:
        place = (self._start or 0) + self.done
        sigmas = getattr(self.scheduler, "sigmas", None)
        if sigmas is not None and place < len(sigmas):
            return float(sigmas[place])
        products = getattr(self.scheduler, "alphas_cumprod", None)
        if products is None or place >= len(self.scheduler.timesteps):
            return None
        product = float(products[int(self.scheduler.timesteps[place])])
        return ((1 - product) / product) ** 0.5

    def _step(self, *args: Any, **kwargs: Any) -> Any:
        now = self.now
        output = self._plain_step(*args, **kwargs)
        self.done += 1
        if self._listener is not None:
            latents = first_tensor(output)
            self._listener(now, latents, self._goal(args, kwargs, latents, now.sigma))
        return output

    def _goal(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], latents: Tensor, sigma: float | None
    ) -> Tensor:
        """The clean latents that the prediction points to, where its kind is a known one."""
        prediction = kwargs.get("model_output", args[0] if args else None)
        sample = kwargs.get("sample", args[2] if len(args) > 2 else None)
        if not isinstance(prediction, Tensor) or not isinstance(sample, Tensor) or sigma is None:
            return latents
        if prediction.shape != sample.shape:
            return latents
        config = self.scheduler.config
        kind = config.get("prediction_type", "flow_prediction")
        if kind == "flow_prediction":
            return sample - sigma * prediction
        if kind != "epsilon":
            return latents
        if float(getattr(self.scheduler, "init_noise_sigma", 1.0)) == 1.0:
            # Variance-preserving: the sample is the noised picture divided by sqrt(1 + sigma^2).
            sample = sample * (1 + sigma**2) ** 0.5
        return sample - sigma * prediction
