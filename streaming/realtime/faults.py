"""Errors that a client gets as an `error` event; the session goes on."""

from __future__ import annotations

from ...components.errors import BadInput
from .effects import Event


class ClientError(BadInput):
    """A client event that can't be carried out; `reason` is the code that clients match on."""

    def __init__(self, reason: str, message: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.reason = reason


def error_body(error: BadInput, event_id: str | None) -> Event:
    """The `error` field: `event_id` is the client's, of the event that caused it."""
    return {
        "type": "invalid_request_error",
        "code": error.reason if isinstance(error, ClientError) else error.code,
        "message": error.message,
        "param": error.param,
        "event_id": event_id,
    }


def server_error(code: str, message: str) -> Event:
    """An error of ours inside `response.done` or a failed transcription."""
    return {"type": "server_error", "code": code, "message": message}
