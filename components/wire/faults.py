"""Errors across the wire: what one process raises is raised again, as it was, in the other."""

from __future__ import annotations

from ..errors import BadInput, ComponentFailed, MotetError, Overloaded, error_of
from . import motet_pb2 as pb

CANCELLED = "cancelled"


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
    error = error_of(message.code or MotetError.code, message.message, where=message.where)
    if isinstance(error, Overloaded) and message.HasField("retry_after_s"):
        error.retry_after_s = message.retry_after_s
    if isinstance(error, BadInput):
        error.param = message.param or None
    return error


def clean(text: str) -> str:
    """Text that any message can hold: what isn't Unicode is shown as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()
