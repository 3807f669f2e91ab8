"""Who has the floor: barge-in, answers that are due, and a word when all have been silent."""

from __future__ import annotations

import math
from dataclasses import replace

from ...pipelines.conversation import Item
from .listening import add_item
from .response import Plan, Response
from .state import State

RESUME_NOTE = (
    "A noise, not the user, cut your last reply off. Go on from where it stops, "
    "without repeating what you have said."
)
IDLE_NOTE = "The user has been silent for a while. Say one short sentence to take it up again."


class Floor:
    """Pure state: lets speech interrupt replies, and starts those that are due.

    A reply that a mere noise cut off is made again on the history of what was heard of it; where
    nothing was heard, it is simply made again.
    """

    def __init__(self, state: State, *, timings: bool) -> None:
        self._state = state
        self._tell_timings = timings
        self._last_plan: Plan | None = None
        self._idle_at_s = math.inf
        self._timed = ""

    def speech_started(self, now_s: float) -> None:
        """Somebody begins to speak: a reply that is made or heard just now ends, if it may."""
        state = self._state
        self._idle_at_s = math.inf
        detection = state.settings.detection
        if detection is None or not detection.interrupt_response:
            return
        main = state.responses.main
        if main is not None:
            self._last_plan = main.plan
            state.responses.cancel(main, "turn_detected", now_s)
        cut = self.stop_playing(now_s)
        if main is not None or any(one.heard != one.text.rstrip() for one in cut):
            state.turns.interrupted()

    def stop_playing(self, now_s: float) -> list[Item]:
        """The client's player falls silent: history keeps what was heard. What was cut short."""
        cut: list[Item] = []
        for item_id, heard_ms in self._state.playback.stop(now_s).items():
            item = self._state.conversation.get(item_id)
            if item is not None and not item.truncated:
                item.cut(heard_ms)
                cut.append(item)
        return cut

    def cleared(self) -> None:
        """The client took back what it said: nothing is to be made up for."""
        if not self._state.turns.waiting:
            self._state.turns.settled()

    def settle(self, now_s: float) -> None:
        """Open what has waited for transcripts; start the reply that is due."""
        state = self._state
        due = state.turns.due()
        if due is not None and state.responses.main is None:
            plan = self._plan(due == "resume")
            state.turns.settled()
            if plan is not None:
                self.begin(plan, now_s)
        state.responses.open_ready(state.turns.waiting, now_s)

    def begin(self, plan: Plan, now_s: float) -> None:
        """Start a response on what has been said so far, transcribed or not.

        Raises:
            ClientError: the conversation has an active response.
        """
        state = self._state
        waits = state.turns.waiting if plan.items is None else frozenset[str]()
        state.responses.create(plan, waits, now_s)
        if plan.in_conversation:
            state.turns.settled()
            self._last_plan = plan
            self._idle_at_s = math.inf

    def over(self, response: Response, now_s: float) -> None:
        """A response has ended: count the silence from when it will have been heard."""
        detection = self._state.settings.detection
        wanted = detection.idle_timeout_ms if detection is not None else None
        spoke = response.plan.in_conversation and response.outcome == "completed"
        if wanted is not None and spoke:
            self._idle_at_s = max(now_s, self._state.playback.end_s) + wanted / 1000

    def deadline_s(self) -> float:
        """When the silence is long enough to say something; infinite while it isn't counted."""
        return self._idle_at_s

    def tick(self, position_ms: float, now_s: float) -> None:
        """Take the turn after a long silence, as the protocol's idle timeout has it."""
        if now_s < self._idle_at_s:
            return
        self._idle_at_s = math.inf
        state, detection = self._state, self._state.settings.detection
        if detection is None or detection.idle_timeout_ms is None:
            return
        if state.responses.main is not None or state.turns.speaking or state.turns.waiting:
            return
        item_id = state.outbox.new_id("item")
        end_ms = max(0.0, position_ms - state.listening.shift_ms)
        state.outbox.send(
            "input_audio_buffer.timeout_triggered",
            audio_start_ms=round(max(0.0, end_ms - detection.idle_timeout_ms)),
            audio_end_ms=round(end_ms),
            item_id=item_id,
        )
        previous = state.conversation.last_id
        state.outbox.send(
            "input_audio_buffer.committed", previous_item_id=previous, item_id=item_id
        )
        add_item(state.outbox, state.conversation, Item(item_id, audio=True), None)
        self.begin(Plan(state.settings, note=IDLE_NOTE), now_s)

    def heard(self, response: Response) -> None:
        """After the first audio of a reply: tell where the turn's time went, once."""
        if response.clock.first_audio_s is None or response.id == self._timed:
            return
        if not response.plan.in_conversation:
            return
        self._timed = response.id
        stages = self._state.timings.stages_ms(response.clock)
        if stages is None:
            return
        response.stages_ms = stages
        if self._tell_timings and (item := response.spoken_item) is not None:
            self._state.outbox.send(
                "motet.turn.timings", response_id=response.id, item_id=item.id, **stages
            )

    def _plan(self, resume: bool) -> Plan | None:
        settings = self._state.settings
        if settings.kind == "transcription":
            return None
        if not resume:
            return Plan(settings)
        if settings.detection is None or not settings.detection.create_response:
            return None
        items = list(self._state.conversation)
        cut = bool(items) and any(
            i.role == "assistant" and i.cut_ms and i.heard for i in items[-3:]
        )
        return replace(self._last_plan or Plan(settings), note=RESUME_NOTE if cut else "")
