"""The request of `/v1/chat/completions`, and the prompt that it becomes."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ...components.errors import BadInput
from ...components.frames import CallRequest, ImagePart, Message, Prompt, Tool
from .parts import Body, PartReader, placed

Json = dict[str, Any]
Stop = Annotated[str, Field(min_length=1, max_length=1000)]
MOST_INT = 2**31 - 1
MOST_STOPS = 64
ROLES = {"developer": "system", "function": "tool"}


class StreamOptions(Body):
    """What a stream has besides its choices."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Function(Body):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class ToolSpec(Body):
    """A tool; only functions are possible."""

    type: Literal["function"]
    function: Function


class Call(Body):
    """A call that the assistant made in an earlier turn."""

    class Named(Body):
        """Its function and arguments."""

        name: str
        arguments: str

    id: str
    type: Literal["function"] = "function"
    function: Named


class ChatMessage(Body):
    """One message; `content` is text or parts."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Json] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class ChatRequest(Body):
    """The parameters that are honoured; one that isn't is a 400 that names it.

    Two that OpenAI hasn't: `image_tokens` bounds what all pictures and frames of clips may take,
    `adapter` names a LoRA.
    """

    model: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_INT)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_INT)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=8)] = 1
    seed: Annotated[int, Field(ge=-MOST_INT, le=MOST_INT)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: str | Json | None = None
    response_format: Json | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    image_tokens: Annotated[int, Field(ge=1, le=MOST_INT)] | None = None
    adapter: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None

    @model_validator(mode="after")
    def consistent(self) -> ChatRequest:
        """Refuse what contradicts itself."""
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.max_tokens and self.max_completion_tokens:
            raise ValueError("give max_tokens or max_completion_tokens, not both")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true")
        return self

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    async def prompt(self, reader: PartReader) -> Prompt:
        """The prompt that it stands for; what its parts name is fetched through the guard.

        Raises:
            BadInput: a part, the tool choice or the format can't be used.
        """
        return Prompt(
            messages=tuple([await message_of(one, reader) for one in self.messages]),
            tools=tuple(tool_of(tool) for tool in self.tools or ()),
            tool_choice=choice_of(self.tool_choice),
            max_tokens=self.max_completion_tokens or self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            spoken=False,
            schema=schema_of(self.response_format),
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            image_tokens=self.image_tokens,
            adapter=self.adapter,
        )


async def message_of(message: ChatMessage, reader: PartReader) -> Message:
    """A message as components know it."""
    pieces: list[str | ImagePart] = []
    if isinstance(message.content, str):
        pieces.append(message.content)
    else:
        for part in message.content or ():
            pieces += await reader.read(part)
    text, images = placed(pieces)
    role: Any = ROLES.get(message.role, message.role)
    calls = [
        CallRequest(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
    ]
    return Message(role, text, images, tuple(calls), message.tool_call_id)


def tool_of(tool: ToolSpec) -> Tool:
    """A tool as components know it."""
    function = tool.function
    return Tool(function.name, function.description or "", function.parameters or {})


def choice_of(choice: str | Json | None) -> str:
    """`tool_choice`: "auto", "none", "required", or a function's name."""
    if choice is None:
        return "auto"
    if isinstance(choice, str):
        return choice
    function = choice.get("function")
    name: Any = function.get("name") if isinstance(function, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(name, str):
        raise BadInput(
            f"{json.dumps(choice)} is no tool choice; write {{type: function, function: {{name}}}}",
            where="tool_choice",
            param="tool_choice",
        )
    return name


def schema_of(response_format: Json | None) -> Json | None:
    """The JSON schema that an answer must fit, {} for any object, None for free text."""
    kind = (response_format or {}).get("type", "text")
    if response_format is None or kind == "text":
        return None
    if kind == "json_object":
        return {}
    named = response_format.get("json_schema")
    schema: Any = named.get("schema") if isinstance(named, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if kind != "json_schema" or not isinstance(schema, dict):
        raise BadInput(
            f"response_format {kind!r:.100} is not possible; known: text, json_object, json_schema"
            " with {json_schema: {schema: …}}",
            where="response_format",
            param="response_format",
        )
    return schema  # pyright: ignore[reportUnknownVariableType]
