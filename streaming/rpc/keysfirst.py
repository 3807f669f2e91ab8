"""Keys are checked before anything of a request is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import grpc

from ...components.errors import MotetError
from ..access.auth import bearer
from .door import Door, textual

if TYPE_CHECKING:
    from .door import Context


class KeysFirst(grpc.aio.ServerInterceptor):
    """Turns away who has no key, without taking the message in: gRPC gives one call's method
    the whole message, which may be large, before it could look at the key. Other services than
    `services` (health, reflection) need none."""

    def __init__(self, door: Door, services: Collection[str]) -> None:
        self._door = door
        self._services = services

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The method's handler, or one that refuses."""
        handler: Any = await continuation(handler_call_details)
        service, _, method = handler_call_details.method.strip("/").partition("/")
        if handler is None or service not in self._services:
            return handler
        try:
            headers = textual(handler_call_details.invocation_metadata)
            self._door.server.keys.check(bearer(headers))
        except MotetError as error:
            # As a stream, whose messages are read when they are asked for.
            refuse = partial(self._refuse, method, error)
            return cast("Any", grpc).stream_stream_rpc_method_handler(refuse)
        return handler

    async def _refuse(
        self, method: str, error: MotetError, requests: AsyncIterator[bytes], context: Context
    ) -> None:
        del requests
        async with self._door.admit(context, method):
            raise error
