"""What every gRPC method begins and ends with: who asks, until when, and how errors are said."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc

from ...components.errors import BadInput, DeadlineExceeded, MotetError, Overloaded
from ...components.wire.faults import clean
from ..access.admission import Admission
from ..server import Server

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]

logger = logging.getLogger("motet")
Code = grpc.StatusCode
Message = TypeVar("Message")

OPENING_S = 60.0
"""How long a stream, which holds a place from its begin, may take to send its first message."""

STATUS = {
    "invalid_value": Code.INVALID_ARGUMENT,
    "invalid_spec": Code.INVALID_ARGUMENT,
    "too_large": Code.INVALID_ARGUMENT,
    "invalid_api_key": Code.UNAUTHENTICATED,
    "origin_not_allowed": Code.PERMISSION_DENIED,
    "not_found": Code.NOT_FOUND,
    "conflict": Code.FAILED_PRECONDITION,
    "overloaded": Code.RESOURCE_EXHAUSTED,
    "rate_limited": Code.RESOURCE_EXHAUSTED,
    "missing_requirement": Code.UNIMPLEMENTED,
    "deadline_exceeded": Code.DEADLINE_EXCEEDED,
    "stopping": Code.UNAVAILABLE,
    "replica_gone": Code.UNAVAILABLE,
}


class Stopping(MotetError):
    """The server ends; another one may answer."""

    code = "stopping"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, until when (`time.monotonic`'s clock), and the trace it belongs to."""

    name: str
    deadline_s: float | None
    trace: str
    model: str
    node: str
    priority: int = 0


class Door:
    """The server's state as gRPC methods need it. `admission` counts what runs at once."""

    def __init__(self, server: Server, admission: Admission) -> None:
        self.server = server
        self._admission = admission

    @asynccontextmanager
    async def admit(self, context: Context, method: str) -> AsyncGenerator[Caller]:
        """Hold a place for a call; an error of ours ends it with its gRPC status."""
        started = time.monotonic()
        status = Code.OK
        try:
            caller, limit = self._caller(context)
            ticket = self._admission.try_enter(caller.name, limit)
            if ticket is None:
                raise Overloaded("every session is taken", where="server", retry_after_s=5)
            with ticket:
                yield caller
        except MotetError as error:
            status = STATUS.get(error.code, Code.INTERNAL)
            if status is Code.INTERNAL:
                logger.warning("%s: %s", method, error)
            await context.abort(status, clean(str(error)), trailing(error))
        except grpc.aio.AbortError:
            raise
        except (asyncio.CancelledError, GeneratorExit):
            status = Code.CANCELLED
            raise
        except Exception as error:
            status = Code.INTERNAL
            logger.exception("%s failed", method, exc_info=error)
            await context.abort(status, "an internal error; the server's log has it")
        finally:
            took = time.monotonic() - started
            self.server.metrics.requests.labels(f"grpc {method}", status.name).observe(took)

    def _caller(self, context: Context) -> tuple[Caller, int | None]:
        draining = all(one.draining for one in self.server.pipelines.values())
        if self.server.stopping.is_set() or draining:
            raise Stopping("the server is shutting down", where="server")
        metadata = metadata_of(context)
        principal = self.server.admit(metadata)
        # A call without a deadline has None, or some billion seconds left, as gRPC counts.
        remaining_s = cast("float | None", context.time_remaining())
        far = remaining_s is None or remaining_s > 1e8
        caller = Caller(
            name=principal.name,
            deadline_s=None if far else time.monotonic() + (remaining_s or 0.0),
            trace=metadata.get("traceparent", ""),
            model=metadata.get("motet-model", ""),
            node=metadata.get("motet-node", ""),
            priority=principal.priority,
        )
        return caller, principal.max_sessions


async def opening(messages: AsyncIterator[Message], part: str, kind: str) -> Message:
    """The first message of a stream, whose `part` must be of that kind.

    Raises:
        BadInput: it is another, or there is none.
        DeadlineExceeded: it doesn't come.
    """
    try:
        async with asyncio.timeout(OPENING_S):
            first: Any = await anext(aiter(messages), None)
    except TimeoutError:
        raise DeadlineExceeded(f"no first message within {OPENING_S:g} s", where=kind) from None
    if first is None or first.WhichOneof(part) != kind:
        raise BadInput("the first message must be the config", where=kind)
    return first


def metadata_of(context: Context) -> dict[str, str]:
    """The call's textual metadata."""
    return textual(context.invocation_metadata())


def textual(metadata: Any) -> dict[str, str]:
    """The entries of a call's metadata that are texts."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}


def trailing(error: MotetError) -> tuple[tuple[str, str], ...]:
    """What a client may want to know beyond the status: our code, the field, when to retry."""
    found = [("motet-code", error.code)]
    if isinstance(error, BadInput) and error.param:
        found.append(("motet-param", error.param))
    if isinstance(error, Overloaded) and error.retry_after_s is not None:
        found.append(("retry-after-s", f"{error.retry_after_s:.1f}"))
        found.append(("grpc-retry-pushback-ms", str(int(error.retry_after_s * 1000))))
    return tuple(found)
