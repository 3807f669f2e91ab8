"""Conversation items on the realtime wire: read from clients, and written for them."""

from __future__ import annotations

from typing import Any

from ...components.frames import CallRequest, ImagePart
from ...pipelines.conversation import Item, Status
from .codec import decode_base64
from .effects import Event, MakeId
from .events import CallItem, MessageItem, OutputItem, Part
from .faults import ClientError

AnyItem = MessageItem | CallItem | OutputItem


def read_item(wire: AnyItem, new_id: MakeId) -> tuple[Item, str | None]:
    """The item, and base64 audio in it that has yet to be transcribed (None if there is none).

    Raises:
        ClientError: a part lacks what its type needs, or a picture isn't a data URL.
    """
    item_id = wire.id or new_id("item")
    if isinstance(wire, CallItem):
        call = CallRequest(wire.call_id or new_id("call"), wire.name, wire.arguments)
        return Item(item_id, "assistant", call=call), None
    if isinstance(wire, OutputItem):
        return Item(item_id, text=wire.output, answers=wire.call_id), None
    return _read_message(wire, item_id)


def _read_message(wire: MessageItem, item_id: str) -> tuple[Item, str | None]:
    texts: list[str] = []
    images: list[ImagePart] = []
    audio: str | None = None
    for index, part in enumerate(wire.content):
        where = f"item.content.{index}"
        if part.type == "input_image":
            images.append(_read_image(part, where))
        elif (text := part.text if part.text is not None else part.transcript) is not None:
            texts.append(text)
        elif part.type == "input_audio" and part.audio and audio is None:
            audio = part.audio
        elif part.type not in ("input_audio", "output_audio"):
            raise ClientError("invalid_value", "The part has no text.", f"{where}.text")
    item = Item(
        item_id,
        wire.role,
        "\n".join(texts),
        tuple(images),
        audio=any(part.type == "input_audio" for part in wire.content),
        pending=audio is not None,
    )
    return item, audio


def _read_image(part: Part, where: str) -> ImagePart:
    head, comma, data = (part.image_url or "").partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise ClientError(
            "invalid_value",
            "A picture comes as a data URL, data:image/png;base64,…; others aren't fetched.",
            f"{where}.image_url",
        )
    return ImagePart(decode_base64(data, f"{where}.image_url"), part.detail or "auto")


def write_item(item: Item, status: Status | None = None) -> Event:
    """The item as events carry it; `status` where it differs from the item's own."""
    head = {"id": item.id, "object": "realtime.item"}
    state = status or item.status
    if item.call is not None:
        return head | {
            "type": "function_call",
            "status": state,
            "name": item.call.name,
            "call_id": item.call.call_id,
            "arguments": item.call.arguments,
        }
    if item.answers is not None:
        kind = {"type": "function_call_output", "status": state}
        return head | kind | {"call_id": item.answers, "output": item.text}
    return head | {
        "type": "message",
        "status": state,
        "role": item.role,
        "content": _content(item),
    }


def _content(item: Item) -> list[dict[str, Any]]:
    """The parts. Audio and pictures are not sent back; audio isn't even kept."""
    if item.role == "assistant":
        if item.audio:
            return [{"type": "output_audio", "transcript": item.heard}] if item.text else []
        return [{"type": "output_text", "text": item.heard}] if item.text else []
    if item.audio:
        return [{"type": "input_audio", "transcript": None if item.pending else item.text}]
    texts = [{"type": "input_text", "text": item.text}] if item.text else []
    return texts + [{"type": "input_image", "detail": image.detail} for image in item.images]
