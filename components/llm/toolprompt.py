"""Tools for models whose chat template knows none: told in words, answered in tagged JSON.

The wording follows what ChatML models without a tool template were trained on (SmolLM2, Hermes):
schemas between <tools> tags, calls between <tool_call> tags. A call that must come is not left
to the model's goodwill: a JSON schema constrains what it can write.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from ..errors import ComponentFailed
from ..frames import Completed, Frame, Message, Prompt, TextDelta, Tool, ToolCall
from .chat import Json, tool_json
from .detokenise import overlap

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def for_template(prompt: Prompt, knows_tools: bool) -> tuple[bool, Prompt]:
    """Whether calls may come, and the prompt as a chat template takes it.

    A call that must come is held by a schema, whether the template knows tools or not.
    """
    calls = bool(prompt.tools) and prompt.tool_choice != "none"
    forced = calls and prompt.tool_choice != "auto"
    return calls, without_tools(prompt) if forced or not knows_tools else prompt


def without_tools(prompt: Prompt) -> Prompt:
    """The same prompt in words alone; a required call becomes a schema."""
    messages = [_flat(message) for message in prompt.messages]
    plain = replace(prompt, tools=(), tool_choice="auto")
    if prompt.tools and prompt.tool_choice != "none":
        told = _instruction(prompt)
        if messages and messages[0].role == "system":
            messages[0] = replace(messages[0], text=f"{messages[0].text}\n\n{told}")
        else:
            messages.insert(0, Message("system", told))
        plain = replace(plain, schema=_forced(prompt) or prompt.schema)
    return replace(plain, messages=tuple(messages))


def _flat(message: Message) -> Message:
    """A message whose calls and call results stand in its text."""
    if message.role == "tool":
        return Message("user", f"<tool_response>\n{message.text}\n</tool_response>")
    if not message.calls:
        return message
    calls = "\n".join(
        f'{OPEN}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}{CLOSE}'
        for call in message.calls
    )
    return replace(message, text=f"{message.text}\n{calls}".strip(), calls=())


def _instruction(prompt: Prompt) -> str:
    schemas = "\n".join(json.dumps(tool_json(tool)["function"]) for tool in prompt.tools)
    told = f"You can call these functions:\n<tools>\n{schemas}\n</tools>\n"
    forced = _named(prompt)
    if forced is not None:
        return f"{told}Call {forced.name} now: answer with the JSON object of its arguments alone."
    if prompt.tool_choice == "required":
        return told + 'Call one now: answer with {"name": ..., "arguments": {...}} alone.'
    return (
        f"{told}Where one helps, answer with"
        f' {OPEN}{{"name": ..., "arguments": {{...}}}}{CLOSE}; otherwise answer as usual.'
    )


def _named(prompt: Prompt) -> Tool | None:
    return next((tool for tool in prompt.tools if tool.name == prompt.tool_choice), None)


def _forced(prompt: Prompt) -> Json | None:
    """The schema of what must be written: a named tool's arguments, or a call of any of them."""
    named = _named(prompt)
    if named is not None:
        return tool_json(named)["function"]["parameters"]
    if prompt.tool_choice != "required":
        return None
    return {"anyOf": [_call_schema(tool) for tool in prompt.tools]}


def _call_schema(tool: Tool) -> Json:
    parameters = tool_json(tool)["function"]["parameters"]
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


@dataclass(slots=True)
class ToolReader:
    """Finds the calls in the text of an answer to `without_tools(prompt)`; pure.

    Text outside of the tags passes at once, but for what may be the beginning of a tag. A tagged
    text that is no call of a known tool passes as text that isn't spoken.
    """

    prompt: Prompt
    where: str = "llm"
    _held: str = ""
    _calls: int = 0

    @property
    def _must_call(self) -> bool:
        return _forced(self.prompt) is not None

    def feed(self, frame: Frame) -> list[Frame]:
        """The frames that follow from one frame of the model."""
        if isinstance(frame, TextDelta):
            self._held += frame.text
            return [] if self._must_call else list(self._scan(frame))
        if not isinstance(frame, Completed):
            return [frame]
        rest = list(self._whole() if self._must_call else self._scan(TextDelta(""), last=True))
        reason = "tool_calls" if self._calls and frame.reason == "stop" else frame.reason
        return [*rest, replace(frame, reason=reason)]

    def _scan(self, frame: TextDelta, *, last: bool = False) -> Iterator[Frame]:
        while self._held:
            before, opened, after = self._held.partition(OPEN)
            if not opened:
                keep = 0 if last else overlap(before, OPEN)
                text, self._held = before[: len(before) - keep], before[len(before) - keep :]
                if text:
                    yield replace(frame, text=text, spoken=self.prompt.spoken)
                return
            if before:
                yield replace(frame, text=before, spoken=self.prompt.spoken)
            written, closed, rest = after.partition(CLOSE)
            if not closed and not last:
                self._held = OPEN + after
                return
            self._held = rest
            yield from self._read(written) or [TextDelta(OPEN + written + closed, spoken=False)]

    def _read(self, written: str) -> list[Frame]:
        """The calls in a tagged text; none when it isn't JSON or names no tool."""
        try:
            value: Any = json.loads(written)
        except ValueError:
            return []
        calls = cast("list[Any]", value if isinstance(value, list) else [value])
        known = {tool.name for tool in self.prompt.tools}
        frames: list[Frame] = []
        for call in calls:
            if not isinstance(call, dict) or cast("Json", call).get("name") not in known:
                return []
            fields = cast("Json", call)
            arguments: Any = fields.get("arguments") or {}
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            frames += self._call(str(fields["name"]), text)
        return frames

    def _call(self, name: str, arguments: str) -> list[Frame]:
        call_id, index = f"call_{secrets.token_hex(12)}", self._calls
        self._calls += 1
        return [ToolCall(call_id, name, arguments, index, done=True)]

    def _whole(self) -> list[Frame]:
        """The call that the schema forced.

        Raises:
            ComponentFailed: the limit on tokens cut it off.
        """
        named, written = _named(self.prompt), self._held.strip()
        self._held = ""
        try:
            json.loads(written)
        except ValueError as error:
            raise ComponentFailed(
                f"the model wrote {len(written)} characters of a call and came to no end of it;"
                " give it a larger max_tokens or a closer schema",
                where=self.where,
            ) from error
        return self._call(named.name, written) if named else self._read(written)
