"""Frames of text: prompts and answers of language models, and texts to embed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .base import Frame, Tensor


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture inside a message: encoded bytes (PNG, JPEG, WebP) and how closely to look.

    `at` is its place: so many characters of the message's text stand before it, None for behind
    all of it. `clip` above 0 makes it a frame of the prompt's clip of that number, at `time_s`;
    frames of clips may be thinned out, other pictures never are.
    """

    data: bytes
    detail: Literal["auto", "low", "high"] = "auto"
    at: int | None = None
    clip: int = 0
    time_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A tool call that a model asked for; `arguments` is JSON text as the model wrote it."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt. `call_id` ties a "tool" message to the call it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    images: tuple[ImagePart, ...] = ()
    calls: tuple[CallRequest, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Prompt(Frame):
    """A request to a language model.

    `tool_choice` is "auto", "none", "required" or a tool's name. `spoken` says that the answer
    will be spoken: its `TextDelta`s carry it on to a TTS. `schema` asks for JSON that fits it.
    `logprobs` None asks for none, n for each token's and for those of the n likeliest in its place.
    `image_tokens` bounds what its pictures may take together; None leaves it to the encoder.
    `adapter` names a LoRA of the engine's options, whose answer is wanted.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    spoken: bool = True
    schema: Mapping[str, Any] | None = None
    logprobs: int | None = None
    image_tokens: int | None = None
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class Likeliest:
    """The likeliest tokens in one token's place, (token, logprob) each, best first."""

    tokens: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta(Frame):
    """The next piece of a text as it is made; pieces join without anything between them.

    `logprobs` holds (token, logprob) pairs where the prompt asked for them, `top` as many entries
    where it asked for the likeliest in each place too.
    """

    text: str
    spoken: bool = True
    logprobs: tuple[tuple[str, float], ...] = ()
    top: tuple[Likeliest, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall(Frame):
    """A piece of a tool call: `name` and `call_id` on every piece, `arguments` a part of the JSON.

    `done` is True on the last piece of the call. `index` tells parallel calls apart.
    """

    call_id: str
    name: str
    arguments: str
    index: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens or units that a request used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    image_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completed(Frame):
    """A model has finished its answer. `first_ms` is the wall time to its first token."""

    reason: Literal["stop", "length", "tool_calls", "content_filter"] = "stop"
    usage: Usage = Usage()
    first_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TextInput(Frame):
    """A whole text to work on (to embed, to classify), with the caller's index.

    `options` are those of the request (dimensions, truncate …), as the component lists them.
    """

    text: str
    index: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class Embedding(Frame):
    """A vector or a matrix of them: float array of shape (dim,) or (tokens, dim).

    `tokens` is what it cost; `meta` carries what the receiver needs to place it (grid sizes).
    """

    vector: Tensor
    index: int = 0
    tokens: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
