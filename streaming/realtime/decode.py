"""A client's message as an event: JSON of a known type whose fields are right."""

from __future__ import annotations

import json
from typing import Any, cast

from .events import EVENT_TYPES, AnyClientEvent, parse_event
from .faults import ClientError


def decode(message: str | bytes | dict[str, Any]) -> dict[str, Any]:
    """The JSON object of a message.

    Raises:
        ClientError: it isn't one.
    """
    if isinstance(message, dict):
        return message
    try:
        raw = json.loads(message)
    except (ValueError, RecursionError):
        raise ClientError("unknown_or_invalid_event", "The message isn't valid JSON.") from None
    if not isinstance(raw, dict):
        raise ClientError("unknown_or_invalid_event", "An event is a JSON object.")
    return cast(dict[str, Any], raw)


def parse(raw: dict[str, Any]) -> AnyClientEvent:
    """The event as data.

    Raises:
        ClientError: its type is unknown.
        BadInput: one of its fields is wrong.
    """
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in EVENT_TYPES:
        known = ", ".join(sorted(EVENT_TYPES))
        raise ClientError(
            "unknown_or_invalid_event",
            f"Unknown event type: {kind!r:.100}; known: {known}.",
            "type",
        )
    return parse_event(raw)
