"""The Chat-Completions dialect: a prompt becomes a request body."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..errors import BadInput, nearest
from ..frames import ImagePart, Message, Prompt, Tool
from ..interleave import pieces

Json = dict[str, Any]

SIGNATURES = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF8", "gif"))


def data_url(image: ImagePart) -> str:
    """An image as a data URL.

    Raises:
        BadInput: it is none of PNG, JPEG, WebP and GIF.
    """
    data = image.data
    kind = next((name for magic, name in SIGNATURES if data.startswith(magic)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        raise BadInput(
            f"an image of {len(data)} bytes starts with {data[:4].hex() or 'nothing'};"
            " PNG, JPEG, WebP and GIF are read",
            where="messages.images",
            param="messages",
        )
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def content_json(message: Message) -> list[Json]:
    """The text and the pictures of a message as parts, in their order."""
    parts: list[Json] = []
    for piece in pieces(message):
        if isinstance(piece, str):
            parts.append({"type": "text", "text": piece})
        else:
            url = {"url": data_url(piece), "detail": piece.detail}
            parts.append({"type": "image_url", "image_url": url})
    return parts


def message_json(message: Message) -> Json:
    """One message in the dialect; text and pictures become parts only where there are pictures."""
    content: Any = content_json(message) if message.images else message.text
    body: Json = {"role": message.role, "content": content}
    if message.calls:
        body["content"] = content or None
        body["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        body["tool_call_id"] = message.call_id
    return body


def tool_json(tool: Tool) -> Json:
    """A tool in the dialect; a tool without parameters takes an empty object."""
    schema = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def choice_json(prompt: Prompt) -> Any:
    """`tool_choice` in the dialect.

    Raises:
        BadInput: it names a tool that the prompt hasn't.
    """
    choice = prompt.tool_choice
    if choice in ("auto", "none", "required"):
        return choice
    names = [tool.name for tool in prompt.tools]
    if choice not in names:
        raise BadInput(
            f"{choice!r} is not a tool of this prompt; possible: auto, none, required"
            f"{''.join(', ' + name for name in names)}",
            where="tool_choice",
            param="tool_choice",
        )
    return {"type": "function", "function": {"name": choice}}


def schema_json(schema: Mapping[str, Any]) -> Json:
    """`response_format` for JSON that fits a schema; an empty schema asks for any object."""
    if not schema:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": dict(schema), "strict": True},
    }


def with_defaults(
    prompt: Prompt, *, max_tokens: int | None, temperature: float | None, top_p: float | None
) -> Prompt:
    """The prompt with a node's settings where it leaves them open."""
    return replace(
        prompt,
        max_tokens=prompt.max_tokens or max_tokens,
        temperature=temperature if prompt.temperature is None else prompt.temperature,
        top_p=top_p if prompt.top_p is None else prompt.top_p,
    )


def check_adapter(prompt: Prompt, known: Iterable[str] = (), *, where: str) -> None:
    """Raises `BadInput` where the prompt names an adapter that isn't known."""
    names = list(known)
    if prompt.adapter is None or prompt.adapter in names:
        return
    possible = nearest(prompt.adapter, names) if names else "this node has none"
    raise BadInput(f"adapter {prompt.adapter!r}: {possible}", where=where, param="adapter")


def request_body(
    prompt: Prompt, model: str, *, token_field: str = "max_tokens", usage: bool = True
) -> Json:
    """The streaming request for a prompt; what the prompt leaves open isn't in it.

    `token_field` is the name that the server knows for the limit on new tokens; `usage` asks for
    the count of tokens, which some servers take for an unknown field.

    Raises:
        BadInput: an image or the tool choice can't be used.
    """
    body: Json = {
        "model": model,
        "messages": [message_json(message) for message in prompt.messages],
        "stream": True,
    }
    optional: Json = {
        "stream_options": {"include_usage": True} if usage else None,
        token_field: prompt.max_tokens,
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "seed": prompt.seed,
        "stop": list(prompt.stop) or None,
    }
    body.update({key: value for key, value in optional.items() if value is not None})
    choice = choice_json(prompt)
    if prompt.tools:
        body["tools"] = [tool_json(tool) for tool in prompt.tools]
        body["tool_choice"] = choice
    if prompt.schema is not None:
        body["response_format"] = schema_json(prompt.schema)
    if prompt.logprobs is not None:
        body["logprobs"] = True
        body["top_logprobs"] = prompt.logprobs
    return body
