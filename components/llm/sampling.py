"""The next token of one request: temperature, nucleus, seed, and its log probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

GREEDY_BELOW = 1e-4
"""Temperatures at which float32 would overflow choose the likeliest token, as 0 does."""


class Guide(Protocol):
    """What narrows an answer to a form, place by place."""

    def narrow(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits (vocab,) without what doesn't fit."""
        ...

    def take(self, token: int) -> None:
        """A token was chosen."""
        ...


@dataclass(frozen=True, slots=True)
class Scored:
    """A chosen token, its log probability, and the likeliest in its place, best first.

    Probabilities are the model's own, before temperature and nucleus.
    """

    token: int
    logprob: float = 0.0
    top: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class Sampler:
    """One request's choices; two with the same seed choose the same from the same logits."""

    temperature: float
    top_p: float
    seed: int | None
    logprobs: int | None
    guide: Guide | None = None
    _random: torch.Generator | None = None

    def choose(self, logits: torch.Tensor) -> Scored:
        """A token for float32 logits of shape (vocab,)."""
        if self.guide is not None:
            logits = self.guide.narrow(logits)
        scored = self._choose(logits)
        if self.guide is not None:
            self.guide.take(scored.token)
        return scored

    def _choose(self, logits: torch.Tensor) -> Scored:
        greedy = self.temperature < GREEDY_BELOW
        token = int(logits.argmax()) if greedy else self._sample(logits)
        if self.logprobs is None:
            return Scored(token)
        scores = logits.log_softmax(-1)
        best = scores.topk(min(self.logprobs, len(scores)))
        pairs = zip(best.indices, best.values, strict=True)
        top = tuple((int(index), float(value)) for index, value in pairs)
        return Scored(token, float(scores[token]), top)

    def _sample(self, logits: torch.Tensor) -> int:
        """Nucleus sampling (Holtzman et al. 2020): the likeliest tokens that make up `top_p`."""
        if self._random is None:
            self._random = torch.Generator("cpu")
            if self.seed is None:
                self._random.seed()
            else:
                self._random.manual_seed(self.seed % 2**63)
        shares = (logits.cpu() / self.temperature).softmax(-1)
        if self.top_p < 1:
            ordered, order = shares.sort(descending=True)
            outside = ordered.cumsum(-1) - ordered >= self.top_p
            shares[order[outside]] = 0
        return int(torch.multinomial(shares, 1, generator=self._random))
