"""`turn/smart`: a turn ends when it sounds finished, judged by smart-turn v3.2 in each pause."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import numpy as np
from pydantic import Field

from ..audio import Floats, signal_at
from ..base import Setup
from ..batching import Batcher
from ..frames import Audio
from ..mel import FRAMES_PER_S, RATE_HZ, log_mel
from ..models import lacking, locate
from ..onnx import OnnxModel
from .rules import EndpointRules
from .shell import TurnOptions, TurnShell, Verdict

HEARD_S = 8


class SmartOptions(TurnOptions):
    """`threshold`: the probability from which a turn counts as finished.

    `finished_ms`: the silence that a finished turn needs at least. How long an unfinished one
    may last is the client's eagerness: 2, 4 or 8 s.
    """

    threshold: float = Field(0.5, gt=0, lt=1)
    finished_ms: float = Field(200.0, ge=100, le=2000)


class SmartTurnModel:
    """The network: the last 8 s of speech in, the probability that the turn is over out."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        self._model = OnnxModel(path, threads=threads)

    def probabilities(self, signals: list[Floats]) -> list[float]:
        """One per signal, each of shape (samples,) in -1..1 at 16 kHz. Blocks."""
        features = np.stack([self.features(signal) for signal in signals])
        (found,) = self._model.run({"input_features": features})
        return [float(one) for one in found.reshape(-1)]

    @staticmethod
    def features(signal: Floats) -> Floats:
        """Log-mel of shape (80, 800): silence in front, mean 0 and variance 1 before the STFT."""
        last = signal[-HEARD_S * RATE_HZ :]
        whole = np.pad(last, (HEARD_S * RATE_HZ - len(last), 0))
        whole = (whole - whole.mean()) / np.sqrt(whole.var() + np.float32(1e-7))
        return log_mel(cast(Floats, whole), frames=HEARD_S * FRAMES_PER_S)


class SmartTurn(TurnShell):
    """Turns by how the speaker sounds (mode "semantic"), or by silence (mode "server").

    Each pause is judged once; a speaker who goes on and pauses again is judged again.
    """

    options = SmartOptions
    judged_ms = HEARD_S * 1000.0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._settings = SmartOptions.model_validate(dict(setup.options))
        self._batcher: Batcher[Floats, float] | None = None
        self._rules = self._settings.rules(finished_ms=self._settings.finished_ms, judged=True)

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return lacking(setup.model or "smart-turn", "turn/smart")

    async def load(self) -> None:
        model = await asyncio.to_thread(self._load)
        self._batcher = Batcher(
            model.probabilities, size=min(8, self.setup.concurrency), name=self.setup.node
        )

    def _load(self) -> SmartTurnModel:
        path = locate(self.setup.model or "smart-turn")
        return SmartTurnModel(path, threads=self.setup.resources.threads)

    def rules(self) -> EndpointRules:
        return self._rules

    async def judge(self, tail: tuple[Audio, ...]) -> Verdict:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        probability = await self.loaded(self._batcher)(signal_at(tail, RATE_HZ))
        return probability >= self._settings.threshold, (clock() - began_s) * 1000

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
            self._batcher = None
