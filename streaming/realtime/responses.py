"""The responses of a session: at most one that speaks in the conversation, others beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from ...components.errors import BadInput
from ...components.frames import End, Frame, Prompt
from ...pipelines.conversation import Conversation, Item
from ...pipelines.history import History
from ...pipelines.playback import Playback
from ..abilities import wished
from .effects import Cancel, Open, Outbox
from .faults import ClientError
from .outputs import Place
from .response import Clock, Plan, Response
from .settings import Offer

MAX_PARALLEL = 8
# After its first sign of life a response may fall silent this many times longer than before it.
_STALL_FACTOR = 3.0


class Responses:
    """Pure state. Starts a response when it may, ends it exactly once, and forgets it then.

    A response first waits for the transcripts that it is to answer, then is opened as a turn of
    the pipeline; frames of turns that are over are dropped.
    """

    def __init__(
        self,
        outbox: Outbox,
        conversation: Conversation,
        playback: Playback,
        offer: Offer,
        over: Callable[[Response, float], None],
    ) -> None:
        self.conversation_id = outbox.new_id("conv")
        self.spoke = False
        self._outbox = outbox
        self._conversation = conversation
        self._playback = playback
        self._offer = offer
        self._over = over
        self._history = History()
        self._active: dict[str, Response] = {}
        self._turns: dict[int, Response] = {}
        self._last_turn = 0

    @property
    def main(self) -> Response | None:
        """The active response of the conversation."""
        return next((r for r in self._active.values() if r.plan.in_conversation), None)

    def create(self, plan: Plan, waits: Iterable[str], now_s: float) -> None:
        """Begin a response; it is announced at once, and opened when nothing is left to wait for.

        Raises:
            ClientError: the conversation has an active response, or too many run beside it.
        """
        if plan.in_conversation and (main := self.main) is not None:
            raise ClientError(
                "conversation_already_has_active_response",
                f"Conversation already has an active response in progress: {main.id}. "
                "Wait until the response is finished before creating a new one.",
            )
        if not plan.in_conversation and len(self._active) >= MAX_PARALLEL:
            raise ClientError("too_many_responses", f"{MAX_PARALLEL} responses are active already.")
        inside = plan.in_conversation
        response_id = self._outbox.new_id("resp")
        place = Place(
            self._outbox,
            response_id,
            self._conversation if inside else None,
            self._playback if inside else None,
        )
        conversation_id = self.conversation_id if inside else None
        response = Response(response_id, plan, place, conversation_id, Clock(now_s), set(waits))
        self._active[response_id] = response
        response.announce()

    def open_ready(self, waiting: frozenset[str], now_s: float) -> None:
        """Hand to the pipeline what no longer waits for a transcript (`waiting`: still missing)."""
        for response in list(self._active.values()):
            response.waits &= waiting
            if response.turn is None and not response.waits:
                self._open(response, now_s)

    def hear(self, turn: int, node: str, frame: Frame, now_s: float) -> Response | None:
        """A frame of a turn; the response that it belongs to, None if that is over."""
        response = self._turns.get(turn)
        if response is None:
            return None
        if isinstance(frame, End):
            response.finish(now_s, interrupted=frame.interrupted)
            self._forget(response, now_s)
        else:
            response.hear(node, frame, now_s)
            self.spoke = self.spoke or response.clock.first_audio_s is not None
        return response

    def cancel(
        self,
        response: Response,
        reason: Literal["turn_detected", "client_cancelled"],
        now_s: float,
    ) -> None:
        """End an active response and its work."""
        self._stop(response)
        response.cancel(reason, now_s)
        self._forget(response, now_s)

    def cancel_by_id(self, response_id: str | None, now_s: float) -> None:
        """What `response.cancel` asks for.

        Raises:
            ClientError: there is no such active response.
        """
        response = self.main if response_id is None else self._active.get(response_id)
        if response is None:
            raise ClientError(
                "response_cancel_not_active", "Cancellation failed: no active response found"
            )
        self.cancel(response, "client_cancelled", now_s)

    def deadline_s(self) -> float:
        """When the next response has been silent for too long."""
        return min((self._limit_s(r) for r in self._active.values()), default=math.inf)

    def tick(self, now_s: float) -> None:
        """Fail responses that give no sign of life: no dead air without an event."""
        for response in list(self._active.values()):
            if self._limit_s(response) <= now_s:
                self._stop(response)
                limit_s = self._offer.conversation.first_token_timeout_s
                message = f"The model gave no sign of life (limit {limit_s:g} s to its first)."
                response.fail("deadline_exceeded", message, now_s)
                self._forget(response, now_s)

    def _limit_s(self, response: Response) -> float:
        """Infinite while it waits for transcripts, which have a limit of their own."""
        clock, limit_s = response.clock, self._offer.conversation.first_token_timeout_s
        if clock.opened_s is None:
            return math.inf
        if clock.last_s is None:
            return clock.opened_s + limit_s
        return clock.last_s + _STALL_FACTOR * limit_s

    def _open(self, response: Response, now_s: float) -> None:
        try:
            frames = self._frames(response.plan)
        except BadInput as error:
            response.fail("context_length_exceeded", error.message, now_s)
            self._forget(response, now_s)
            return
        self._last_turn += 1
        response.turn = self._last_turn
        response.clock.opened_s = now_s
        self._turns[response.turn] = response
        self._outbox.add(Open(response.turn, frames))

    def _frames(self, plan: Plan) -> tuple[Frame, ...]:
        settings, spec = plan.settings, self._offer.conversation
        instructions = "\n\n".join(part for part in (settings.instructions, plan.note) if part)
        items: Iterable[Item] = self._conversation if plan.items is None else plan.items
        # A history of its own, where the input is: it must not forget the conversation's turns.
        history = self._history if plan.items is None else History()
        prompt = Prompt(
            history.messages(items, instructions, settings.budget),
            tools=settings.tools,
            tool_choice=settings.tool_choice if settings.tools else "auto",
            max_tokens=min(
                settings.max_output_tokens or spec.max_answer_tokens, spec.max_answer_tokens
            ),
            temperature=spec.temperature,
            spoken=settings.modality == "audio",
        )
        if settings.modality == "text":
            return (prompt,)
        return wished(settings.voice, settings.speed), prompt

    def _stop(self, response: Response) -> None:
        if response.turn is not None:
            self._outbox.add(Cancel(response.turn))

    def _forget(self, response: Response, now_s: float) -> None:
        del self._active[response.id]
        if response.turn is not None:
            del self._turns[response.turn]
        self._outbox.add(response.report())
        self._over(response, now_s)
