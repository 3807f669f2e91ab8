"""The stream of a chat completion, read event by event into frames."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors import ComponentFailed
from ..frames import Completed, Frame, Likeliest, TextDelta, ToolCall, Usage
from ..httpstream import reported_error
from .chat import Json

REASONS = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


@dataclass(slots=True)
class _Call:
    """A tool call as its pieces arrive; pieces wait in `held` until the name is known."""

    call_id: str = ""
    name: str = ""
    held: str = ""
    written: bool = False

    def take(self, index: int) -> Iterator[ToolCall]:
        """The arguments that may go out now."""
        if self.name and self.held:
            self.call_id = self.call_id or f"call_{secrets.token_hex(12)}"
            self.written = True
            yield ToolCall(self.call_id, self.name, self.held, index)
            self.held = ""


@dataclass(slots=True)
class ChatStream:
    """Turns the events of one streamed completion into frames; no I/O, no clock.

    Feed it every event, then call `finish` once. It takes the dialects of OpenAI, vLLM, SGLang,
    TensorRT-LLM, Dynamo and llama.cpp: usage in any event or in none, calls with or without
    index and id, whole messages in place of deltas; what a model thinks aloud
    (`reasoning_content`) is left out.
    """

    spoken: bool
    where: str = "llm"
    usage: Usage = field(default_factory=Usage)
    reason: str | None = None
    _calls: dict[int, _Call] = field(default_factory=dict[int, _Call])

    def feed(self, event: Json) -> list[Frame]:
        """The frames of one event.

        Raises:
            MotetError: the event reports a failure, or isn't of this dialect.
        """
        if event.get("error"):
            raise reported_error(event["error"], where=self.where)
        if isinstance(event.get("usage"), dict):
            self.usage = _usage(event["usage"])
        frames: list[Frame] = []
        for choice in _dicts(event.get("choices")):
            if choice.get("index", 0):
                continue
            delta: Any = choice.get("delta") or choice.get("message") or {}
            if not isinstance(delta, dict):
                raise ComponentFailed(f"an event's delta is {delta!r:.80}", where=self.where)
            frames += self._delta(cast("Json", delta), choice.get("logprobs"))
            self.reason = choice.get("finish_reason") or self.reason
        return frames

    def _delta(self, delta: Json, logprobs: Any) -> Iterator[Frame]:
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        if text:
            yield TextDelta(text, self.spoken, *_logprobs(logprobs))
        calls = _dicts(delta.get("tool_calls"))
        if isinstance(delta.get("function_call"), dict):
            calls.append({"index": 0, "function": delta["function_call"]})
        for piece in calls:
            yield from self._piece(piece)

    def _piece(self, piece: Json) -> Iterator[ToolCall]:
        index = piece.get("index")
        if not isinstance(index, int):
            index = len(self._calls) if piece.get("id") else max(len(self._calls) - 1, 0)
        call = self._calls.setdefault(index, _Call())
        function = cast("Json", piece.get("function") or {})
        call.call_id = call.call_id or str(piece.get("id") or "")
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments") or ""
        call.held += arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield from call.take(index)

    def finish(self, first_ms: float, *, complete: bool) -> list[Frame]:
        """The last frames; `complete` says that the server closed the stream in its own words.

        Raises:
            ComponentFailed: the stream broke off, or the server gave the request up.
        """
        if self.reason in ("abort", "error", "cancelled"):
            raise ComponentFailed(f"the server ended with {self.reason!r}", where=self.where)
        if self.reason is None and not complete:
            raise ComponentFailed("the stream broke off before its end", where=self.where)
        frames: list[Frame] = []
        for index, call in self._calls.items():
            if not call.name:
                raise ComponentFailed(f"tool call {index} has no name", where=self.where)
            call.held = call.held or ("" if call.written else "{}")
            frames += call.take(index)
            frames.append(ToolCall(call.call_id, call.name, "", index, done=True))
        reason = REASONS.get(self.reason or "stop", "stop")
        if self._calls and reason == "stop":
            reason = "tool_calls"
        frames.append(Completed(cast("Any", reason), self.usage, first_ms))
        return frames


def _dicts(value: Any) -> list[Json]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Json", item) for item in items if isinstance(item, dict)]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in _dicts(content))


def _logprobs(value: Any) -> tuple[tuple[tuple[str, float], ...], tuple[Likeliest, ...]]:
    """Each token's, and the likeliest in its place where the server tells them."""
    entries = _dicts(cast("Json", value).get("content")) if isinstance(value, dict) else []
    tops = [_dicts(entry.get("top_logprobs")) for entry in entries]
    likeliest = tuple(Likeliest(tuple(_pair(one) for one in top)) for top in tops)
    return tuple(_pair(entry) for entry in entries), likeliest if any(tops) else ()


def _pair(entry: Json) -> tuple[str, float]:
    return str(entry.get("token")), float(entry.get("logprob") or 0.0)


def _usage(value: Json) -> Usage:
    details = cast("Json", value.get("prompt_tokens_details") or {})
    return Usage(
        input_tokens=int(value.get("prompt_tokens") or 0),
        output_tokens=int(value.get("completion_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
        image_tokens=int(details.get("image_tokens") or 0),
    )
