"""The realtime protocol's client events as data, checked where they come in.

Unknown fields are ignored, not refused: clients are ahead of servers, several of them end the call
at any error, and `session.updated` shows what is in force. A null leaves a setting as it is,
except where the protocol gives it a meaning (`turn_detection`, `transcription`).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ...components.errors import BadInput

MAX_TOOLS = 128
MAX_TEXT_CHARS = 256_000


class Wire(BaseModel):
    """Base of what clients send."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class FormatPatch(Wire):
    """An audio format; the beta protocol's names are understood too."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: Literal[24000, 8000] | None = None


FormatField = FormatPatch | Literal["pcm16", "g711_ulaw", "g711_alaw"] | None


class TranscriptionPatch(Wire):
    model: str | None = None
    language: str | None = Field(default=None, max_length=35)
    prompt: str | None = Field(default=None, max_length=8000)


class DetectionPatch(Wire):
    type: Literal["server_vad", "semantic_vad"] | None = None
    threshold: float | None = Field(default=None, ge=0, le=1)
    prefix_padding_ms: int | None = Field(default=None, ge=0, le=10_000)
    silence_duration_ms: int | None = Field(default=None, ge=0, le=60_000)
    idle_timeout_ms: int | None = Field(default=None, ge=100, le=600_000)
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class InputPatch(Wire):
    format: FormatField = None
    transcription: TranscriptionPatch | None = None
    turn_detection: DetectionPatch | None = None


class VoiceId(Wire):
    id: str = Field(max_length=256)


class OutputPatch(Wire):
    format: FormatField = None
    voice: Annotated[str, Field(max_length=256)] | VoiceId | None = None
    speed: float | None = Field(default=None, ge=0.25, le=1.5)


class AudioPatch(Wire):
    input: InputPatch | None = None
    output: OutputPatch | None = None


class ToolSpec(Wire):
    """A function the model may call. Other kinds of tools are refused by name."""

    type: Literal["function"] = "function"
    name: str = Field(min_length=1, max_length=256)
    description: str | None = Field(default=None, max_length=16_000)
    parameters: dict[str, Any] | None = None


class NamedChoice(Wire):
    type: Literal["function"] = "function"
    name: str = Field(max_length=256)


ChoiceField = Literal["auto", "none", "required"] | NamedChoice | None
ModalitiesField = (
    Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=2)] | None
)
TokensField = Annotated[int, Field(ge=1)] | Literal["inf"] | None
TextField = Annotated[str, Field(max_length=MAX_TEXT_CHARS)] | None
ToolsField = Annotated[list[ToolSpec], Field(max_length=MAX_TOOLS)] | None


class TokenLimits(Wire):
    post_instructions: int | None = Field(default=None, ge=0)


class RetentionPatch(Wire):
    type: Literal["retention_ratio"]
    retention_ratio: float = Field(ge=0, le=1)
    token_limits: TokenLimits | None = None


class SessionPatch(Wire):
    """What `session.update` may change; only the fields present in the event count."""

    type: Literal["realtime", "transcription"] | None = None
    instructions: TextField = None
    output_modalities: ModalitiesField = None
    tools: ToolsField = None
    tool_choice: ChoiceField = None
    max_output_tokens: TokensField = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | RetentionPatch | None = None
    include: Annotated[list[str], Field(max_length=16)] | None = None
    audio: AudioPatch | None = None


class Part(Wire):
    """One piece of a message's content."""

    type: Literal["input_text", "output_text", "text", "input_audio", "output_audio", "input_image"]
    text: TextField = None
    audio: str | None = None
    transcript: TextField = None
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


ItemId = Annotated[str, Field(min_length=1, max_length=256)]


class MessageItem(Wire):
    type: Literal["message"]
    id: ItemId | None = None
    role: Literal["system", "user", "assistant"]
    content: list[Part] = Field(max_length=64)


class CallItem(Wire):
    type: Literal["function_call"]
    id: ItemId | None = None
    call_id: ItemId | None = None
    name: str = Field(max_length=256)
    arguments: str = Field(max_length=MAX_TEXT_CHARS)


class OutputItem(Wire):
    type: Literal["function_call_output"]
    id: ItemId | None = None
    call_id: ItemId
    output: str = Field(max_length=MAX_TEXT_CHARS)


class ItemReference(Wire):
    type: Literal["item_reference"]
    id: ItemId


NewItem = Annotated[MessageItem | CallItem | OutputItem, Field(discriminator="type")]
InputItem = Annotated[
    MessageItem | CallItem | OutputItem | ItemReference, Field(discriminator="type")
]


class ResponsePatch(Wire):
    """What one `response.create` does differently from the session."""

    conversation: Literal["auto", "none"] | None = None
    instructions: TextField = None
    output_modalities: ModalitiesField = None
    tools: ToolsField = None
    tool_choice: ChoiceField = None
    max_output_tokens: TokensField = None
    parallel_tool_calls: bool | None = None
    audio: AudioPatch | None = None
    metadata: dict[str, str] | None = Field(default=None, max_length=16)
    input: Annotated[list[InputItem], Field(max_length=512)] | None = None


class ClientEvent(Wire):
    event_id: str | None = Field(default=None, max_length=512)


class SessionUpdate(ClientEvent):
    type: Literal["session.update", "transcription_session.update"]
    session: SessionPatch


class AudioAppend(ClientEvent):
    type: Literal["input_audio_buffer.append"]
    audio: str


class AudioCommit(ClientEvent):
    type: Literal["input_audio_buffer.commit"]


class AudioClear(ClientEvent):
    type: Literal["input_audio_buffer.clear"]


class OutputClear(ClientEvent):
    type: Literal["output_audio_buffer.clear"]


class ItemCreate(ClientEvent):
    type: Literal["conversation.item.create"]
    item: NewItem
    previous_item_id: str | None = None


class ItemDelete(ClientEvent):
    type: Literal["conversation.item.delete"]
    item_id: str


class ItemRetrieve(ClientEvent):
    type: Literal["conversation.item.retrieve"]
    item_id: str


class ItemTruncate(ClientEvent):
    type: Literal["conversation.item.truncate"]
    item_id: str
    content_index: int = 0
    audio_end_ms: int = Field(ge=0)


class ResponseCreate(ClientEvent):
    type: Literal["response.create"]
    response: ResponsePatch | None = None


class ResponseCancel(ClientEvent):
    type: Literal["response.cancel"]
    response_id: str | None = None


AnyClientEvent = (
    SessionUpdate | AudioAppend | AudioCommit | AudioClear | OutputClear | ItemCreate | ItemDelete
    | ItemRetrieve | ItemTruncate | ResponseCreate | ResponseCancel
)  # fmt: skip

EVENT_TYPES = frozenset(
    name
    for event in get_args(AnyClientEvent)
    for name in get_args(event.model_fields["type"].annotation)
)
"""The types of the client events: the eleven of the protocol, and one of its beta."""

_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_BRANCHES = {"int", "str", "message", "function_call", "function_call_output", "item_reference"}
_EVENTS: TypeAdapter[AnyClientEvent] = TypeAdapter(
    Annotated[AnyClientEvent, Field(discriminator="type")]
)


def parse_event(raw: dict[str, Any]) -> AnyClientEvent:
    """The event as data.

    Raises:
        BadInput: a field is missing or wrong (all of them are named), or the type is unknown;
            `param` is the path of the first.
    """
    try:
        return _EVENTS.validate_python(raw)
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError) -> BadInput:
    """A failed check as one error that names every faulty field by its path."""
    faults: dict[str, str] = {}
    for fault in error.errors(include_url=False, include_input=False):
        path = ".".join(str(step) for step in fault["loc"][1:] if not _is_branch(step))
        faults.setdefault(path, fault["msg"])
    text = "; ".join(f"{path}: {why}" if path else why for path, why in faults.items())
    return BadInput(text[:2000], param=next(iter(faults), None) or None)


def _is_branch(step: int | str) -> bool:
    """Whether a step of the path is pydantic's name for a branch of a union, not a field."""
    return isinstance(step, str) and (step in _BRANCHES or not _FIELD.fullmatch(step))
