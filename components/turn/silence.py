"""`turn/silence`: a turn ends after a set silence."""

from __future__ import annotations

from pydantic import Field

from ..base import Setup
from .rules import EndpointRules
from .shell import TurnOptions, TurnShell


class SilenceOptions(TurnOptions):
    """`low_ms`, `medium_ms` and `high_ms`: the silence that ends a turn in mode "semantic".

    No model judges here whether the speaker has finished, so eagerness is only patience.
    """

    low_ms: float = Field(1600.0, ge=100, le=10_000)
    medium_ms: float = Field(800.0, ge=100, le=10_000)
    high_ms: float = Field(500.0, ge=100, le=10_000)


class SilenceTurn(TurnShell):
    """Turns by silence alone; see `components.turn.endpoint` for what it does with audio."""

    options = SilenceOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        settings = SilenceOptions.model_validate(dict(setup.options))
        self._rules = settings.rules(
            low_ms=settings.low_ms, medium_ms=settings.medium_ms, high_ms=settings.high_ms
        )

    def rules(self) -> EndpointRules:
        return self._rules
