"""One response: from `response.created` to its one `response.done`, frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...components.frames import (
    Audio,
    CallRequest,
    Completed,
    Fault,
    Frame,
    Spoken,
    TextDelta,
    ToolCall,
    Usage,
)
from ...pipelines.conversation import Item, Status
from .effects import Event, Report
from .faults import server_error
from .outputs import CallOutput, Output, Place, SpokenOutput, TextOutput
from .settings import Settings, tokens_wire

Outcome = Literal["completed", "cancelled", "failed", "incomplete"]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a response is asked to be: a snapshot that later updates of the session don't touch.

    `items` replaces the conversation as its input where it isn't None; `note` is a further
    instruction for this once.
    """

    settings: Settings
    metadata: Mapping[str, str] | None = None
    in_conversation: bool = True
    items: tuple[Item, ...] | None = None
    note: str = ""


@dataclass(slots=True)
class Clock:
    """Moments of a response, on the protocol's clock; None until they come."""

    created_s: float
    opened_s: float | None = None
    first_text_s: float | None = None
    first_audio_s: float | None = None
    last_s: float | None = None


@dataclass(slots=True)
class Response:
    """Pure state. `turn` is None until the pipeline works on it; `outcome` until it is over."""

    id: str
    plan: Plan
    place: Place
    conversation_id: str | None
    clock: Clock
    waits: set[str] = field(default_factory=set[str])
    turn: int | None = None
    outcome: Outcome | None = None
    stages_ms: dict[str, float] = field(default_factory=dict[str, float])
    _outputs: list[Output] = field(default_factory=list[Output])
    _calls: dict[str, CallOutput] = field(default_factory=dict[str, CallOutput])
    _message: TextOutput | SpokenOutput | None = None
    _written: str = ""
    _usage: Usage | None = None
    _reason: str = "stop"
    _fault: Fault | None = None
    _sources: dict[type[Frame], str] = field(default_factory=dict[type[Frame], str])

    @property
    def spoken_item(self) -> Item | None:
        """The message of the response, None while there is none."""
        return self._message.item if self._message is not None else None

    def report(self) -> Report:
        """How it went, when it is over."""
        item = self.spoken_item
        return Report(
            self.id,
            self.outcome or "",
            self.stages_ms,
            self._usage or Usage(),
            item.sent_ms if item is not None else 0.0,
        )

    def announce(self) -> None:
        """Send `response.created`."""
        self.place.outbox.send("response.created", response=self._wire("in_progress", None))

    def hear(self, node: str, frame: Frame, now_s: float) -> None:
        """Take what the pipeline made. Where two nodes hand on the same, the first one counts."""
        if self._sources.setdefault(type(frame), node) != node and not isinstance(frame, Fault):
            return
        self.clock.last_s = now_s
        if isinstance(frame, TextDelta):
            self._text(frame, now_s)
        elif isinstance(frame, Spoken | Audio):
            self._speech(frame, now_s)
        elif isinstance(frame, ToolCall):
            self._tool_call(frame, now_s)
        elif isinstance(frame, Completed):
            self._reason, self._usage = frame.reason, frame.usage
        elif isinstance(frame, Fault):
            self._fault = self._fault or frame

    def finish(self, now_s: float, *, interrupted: bool = False) -> None:
        """The pipeline's turn is over: say how it went."""
        if self._fault is not None:
            self.fail(self._fault.code, self._fault.message, now_s)
            return
        if interrupted:
            self.fail("interrupted", "The response was cut off by the server.", now_s)
            return
        if self.plan.settings.modality == "audio":
            self._finish_speech(now_s)
        reason = _INCOMPLETE.get(self._reason)
        if reason is not None:
            self._end("incomplete", {"type": "incomplete", "reason": reason}, now_s)
        else:
            self._end("completed", None, now_s)

    def cancel(self, reason: Literal["turn_detected", "client_cancelled"], now_s: float) -> None:
        """Close everything, and keep only what was sent."""
        self._end("cancelled", {"type": "cancelled", "reason": reason}, now_s)

    def fail(self, code: str, message: str, now_s: float) -> None:
        """Close everything, with an error of ours."""
        error = server_error(code, message)
        self._end("failed", {"type": "failed", "error": error}, now_s)

    def _end(self, outcome: Outcome, details: Event | None, now_s: float) -> None:
        self.outcome = outcome
        status: Status = "completed" if outcome == "completed" else "incomplete"
        for output in self._outputs:
            output.close(status, now_s)
        if outcome in ("cancelled", "failed") and isinstance(self._message, SpokenOutput):
            item = self._message.item
            item.cut(item.sent_ms if item.cut_ms is None else item.cut_ms)
        self.place.outbox.send("response.done", response=self._wire(outcome, details))
        self.place.outbox.send("rate_limits.updated", rate_limits=[])

    def _text(self, frame: TextDelta, now_s: float) -> None:
        if self.clock.first_text_s is None:
            self.clock.first_text_s = now_s
        self._written += frame.text
        if self.plan.settings.modality == "text" and frame.text:
            output = self._message or self._begin_message()
            output.write(frame.text)

    def _speech(self, frame: Spoken | Audio, now_s: float) -> None:
        if self.plan.settings.modality == "text":
            return
        output = self._message or self._begin_message()
        if isinstance(output, SpokenOutput) and isinstance(frame, Spoken):
            output.say(frame)
        elif isinstance(output, SpokenOutput) and isinstance(frame, Audio):
            if self.clock.first_audio_s is None:
                self.clock.first_audio_s = now_s
            output.play(frame, now_s)

    def _finish_speech(self, now_s: float) -> None:
        """Send what the resampler holds, and text that nothing has spoken."""
        unspoken = self._unspoken()
        output = self._message or (self._begin_message() if unspoken.strip() else None)
        if isinstance(output, SpokenOutput):
            output.finish(now_s)
            output.write(unspoken)

    def _tool_call(self, frame: ToolCall, now_s: float) -> None:
        if frame.index > 0 and not self.plan.settings.parallel_tool_calls:
            return
        output = self._calls.get(frame.call_id)
        if output is None:
            call = CallRequest(self._call_id(frame.call_id), frame.name, "")
            item_id = self.place.outbox.new_id("item")
            output = CallOutput(self.place, len(self._outputs), item_id, call)
            self._calls[frame.call_id] = output
            self._outputs.append(output)
            output.open()
        if output.wire is None:
            output.write(frame.arguments)
            if frame.done:
                output.close("completed", now_s)

    def _call_id(self, made: str) -> str:
        """The model's id of a call; one of ours where an earlier call has the same."""
        conversation = self.place.conversation
        known = conversation is not None and conversation.call(made) is not None
        return self.place.outbox.new_id("call") if known or not made else made

    def _begin_message(self) -> TextOutput | SpokenOutput:
        settings, index = self.plan.settings, len(self._outputs)
        item = Item(self.place.outbox.new_id("item"), "assistant")
        if settings.modality == "text":
            output = TextOutput(self.place, index, item)
        else:
            output = SpokenOutput(self.place, index, item, settings.output_format)
        self._message = output
        self._outputs.append(output)
        output.open()
        return output

    def _unspoken(self) -> str:
        """What was written but no slice of the speech held."""
        said = self._message.item.text if self._message is not None else ""
        return self._written[len(said) :] if self._written.startswith(said) else ""

    def _wire(self, status: str, details: Event | None) -> Event:
        settings = self.plan.settings
        output = {"format": settings.output_format.wire(), "voice": settings.voice}
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": [one.wire for one in self._outputs if one.wire is not None],
            "conversation_id": self.conversation_id,
            "output_modalities": [settings.modality],
            "max_output_tokens": tokens_wire(settings.max_output_tokens),
            "audio": {"output": output},
            "usage": usage_wire(self._usage),
            "metadata": dict(self.plan.metadata) if self.plan.metadata is not None else None,
        }


def usage_wire(usage: Usage | None) -> Event | None:
    """Tokens in the protocol's shape; speech is counted by the text it became."""
    if usage is None:
        return None
    cached = {"text_tokens": usage.cached_tokens, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_tokens - usage.image_tokens,
            "audio_tokens": 0,
            "image_tokens": usage.image_tokens,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": cached,
        },
        "output_token_details": {"text_tokens": usage.output_tokens, "audio_tokens": 0},
    }
