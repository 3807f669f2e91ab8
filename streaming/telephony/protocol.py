"""A phone call as a protocol: the carrier's messages at one end, the realtime protocol inside.

It has the methods of `RealtimeProtocol` and answers with the same effects, so that the shell that
drives one drives the other; what it sends are the carrier's messages.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ...components.errors import BadInput
from ...components.frames import Frame
from ..realtime.decode import decode
from ..realtime.effects import Close, Effect, Send
from ..realtime.protocol import RealtimeProtocol
from .call import Call, Event, Step
from .dialects import Dialect

POLICY_VIOLATION = 1008
NORMAL = 1000


class CallProtocol:
    """One call. A message that can't be understood ends it: carriers don't read errors."""

    def __init__(self, dialect: Dialect, inner: RealtimeProtocol) -> None:
        self._call = Call(dialect)
        self._inner = inner
        self._over = False

    @property
    def session_id(self) -> str:
        """The id of the realtime session inside."""
        return self._inner.session_id

    def start(self) -> list[Effect]:
        """What happens before the carrier has said anything."""
        return self._translate(self._inner.start(), 0.0)

    def receive(self, message: str | bytes | dict[str, Any], now_s: float) -> list[Effect]:
        """A message from the carrier."""
        try:
            return self._carry_out(self._call.receive(decode(message), now_s), now_s)
        except BadInput as error:
            return self._close(POLICY_VIOLATION, str(error))

    def hear(self, turn: int, node: str, frame: Frame, now_s: float) -> list[Effect]:
        """A frame from the pipeline's session."""
        return self._translate(self._inner.hear(turn, node, frame, now_s), now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Let time pass; call it at `next_deadline`, or more often."""
        pressed = self._carry_out(self._call.tick(now_s), now_s)
        return pressed + self._translate(self._inner.tick(now_s), now_s)

    def next_deadline(self) -> float:
        """When `tick` has something to do, if nothing else happens before."""
        inner_s = self._inner.next_deadline()
        return inner_s if self._call.due_s is None else min(inner_s, self._call.due_s)

    def refuse(self, error: BadInput) -> list[Effect]:
        """An error outside the messages, such as one too large."""
        return self._close(POLICY_VIOLATION, str(error))

    def _carry_out(self, step: Step, now_s: float) -> list[Effect]:
        """Messages first: what the caller hears must stop before anything else is done."""
        effects: list[Effect] = [Send(message) for message in step.messages]
        for event in step.events:
            effects += self._translate(self._inner.receive(event, now_s), now_s)
        return effects + (self._close(NORMAL, "") if step.over else [])

    def _translate(self, effects: list[Effect], now_s: float) -> list[Effect]:
        """The inner protocol's effects, its events made the carrier's messages. What the call has
        to say to them goes in again, until nothing is left to say."""
        translated: list[Effect] = []
        waiting = deque(effects)
        answers: list[Event] = []
        while waiting or answers:
            if not waiting:
                waiting.extend(self._inner.receive(answers.pop(0), now_s))
                continue
            effect = waiting.popleft()
            if not isinstance(effect, Send):
                translated.append(effect)
                continue
            step = self._call.deliver(effect.event, now_s)
            translated += [Send(message) for message in step.messages]
            answers += step.events
        return translated

    def _close(self, code: int, reason: str) -> list[Effect]:
        if self._over:
            return []
        self._over = True
        return [Close(code, reason[:120])]
