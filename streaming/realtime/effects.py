"""What the realtime protocol wants done: the effects that its shell carries out, in order."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ...components.frames import Frame, Usage

Event = dict[str, Any]
MakeId = Callable[[str], str]

_ALPHABET = string.digits + string.ascii_letters


@dataclass(frozen=True, slots=True)
class Send:
    """Send this server event to the client."""

    event: Event


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """Send this frame into the pipeline's standing stream (turn 0)."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Open:
    """Start this turn with these frames as its whole input."""

    turn: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Interrupt this turn."""

    turn: int


@dataclass(frozen=True, slots=True)
class Report:
    """A response is over: for the server's metrics and log, never for the client.

    `stages_ms`: where the time went, for a reply to speech that was heard.
    """

    response_id: str
    outcome: str
    stages_ms: Mapping[str, float]
    usage: Usage
    audio_ms: float


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection with this WebSocket close code, when all before it is sent."""

    code: int
    reason: str


Effect = Send | Feed | Open | Cancel | Report | Close


def random_ids() -> MakeId:
    """Ids like the original's: a prefix and 21 letters and digits."""
    random = Random(secrets.randbits(128))

    def make(prefix: str) -> str:
        return f"{prefix}_{''.join(random.choices(_ALPHABET, k=21))}"

    return make


class Outbox:
    """Gathers the effects of one step, and stamps events with their ids."""

    def __init__(self, new_id: MakeId) -> None:
        self.new_id = new_id
        self._effects: list[Effect] = []

    def send(self, kind: str, **fields: Any) -> None:
        """A server event of that type."""
        self._effects.append(Send({"type": kind, "event_id": self.new_id("event"), **fields}))

    def add(self, effect: Effect) -> None:
        """Any other effect."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """What has gathered, once."""
        effects, self._effects = self._effects, []
        return effects
