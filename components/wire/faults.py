"""Errors across the wire: what one process raises is raised again, as it was, in the other."""

from __future__ import annotations

from ..errors import (
    BadInput,
    ComponentFailed,
    DeadlineExceeded,
    MissingRequirement,
    MotetError,
    Overloaded,
)
from . import motet_pb2 as pb

CANCELLED = "cancelled"
# Not every subclass there is: which ones are imported must not decide what an error becomes.
KINDS: dict[str, type[MotetError]] = {
    kind.code: kind
    for kind in (BadInput, ComponentFailed, DeadlineExceeded, MissingRequirement, Overloaded)
}


def to_abort(error: BaseException, where: str = "") -> pb.Abort:
    """What a failed call says; an exception that isn't Motet's own is a `ComponentFailed`."""
    if not isinstance(error, MotetError):
        error = ComponentFailed(f"{type(error).__name__}: {error}", where=where)
    message = pb.Abort(code=error.code, message=clean(error.message), where=error.where)
    if isinstance(error, Overloaded) and error.retry_after_s is not None:
        message.retry_after_s = error.retry_after_s
    if isinstance(error, BadInput) and error.param is not None:
        message.param = error.param
    return message


def from_abort(message: pb.Abort) -> MotetError:
    """The error that an abort stands for; one of an unknown code keeps its code."""
    text, where = message.message, message.where
    kind = KINDS.get(message.code, MotetError)
    if kind is Overloaded:
        retry = message.retry_after_s if message.HasField("retry_after_s") else None
        return Overloaded(text, where=where, retry_after_s=retry)
    if kind is BadInput:
        return BadInput(text, where=where, param=message.param or None)
    error = kind(text, where=where)
    error.code = message.code or error.code
    return error


def clean(text: str) -> str:
    """Text that any message can hold: what isn't Unicode is shown as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()
