"""What both clients are: a connection, and how its calls begin and fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from pathlib import Path
from typing import Any, ClassVar, cast

from ...components.wire import motet_pb2_grpc
from .requests import Messages, Target


class Connected:
    """Calls the gRPC door. `timeout_s` of each call is its deadline, None without one; `priority`
    says which go first where queues go by it, None for the key's own."""

    _insecure: ClassVar[Callable[..., Any]]
    _secure: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        tls: bool = False,
        authority: Path | None = None,
        timeout_s: float | None = None,
        priority: int | None = None,
    ) -> None:
        self._target = Target(address, key, tls, authority, priority=priority)
        self._timeout_s = timeout_s
        self._messages = Messages(self._target)
        credentials, options = self._target.credentials(), self._target.options()
        if credentials is None:
            self._channel = self._insecure(address, options=options)
        else:
            self._channel = self._secure(address, credentials, options=options)
        self._stub: Any = cast("Any", motet_pb2_grpc).MotetStub(self._channel)

    def _begin(self, method: str, request: object, **metadata: str | None) -> Any:
        """The call of a method, with the key and the deadline."""
        start = getattr(self._stub, method)
        return start(request, metadata=self._target.metadata(**metadata), timeout=self._timeout_s)


class Source:
    """The messages of a stream that the caller sends. gRPC cancels the call when the caller's own
    code fails on the way, and doesn't say why: `error` does."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def items(self, messages: Iterable[Any]) -> Generator[Any]:
        """The messages."""
        try:
            yield from messages
        except Exception as error:
            self.error = error
            raise

    async def items_async(self, messages: AsyncIterable[Any]) -> AsyncGenerator[Any]:
        """The messages."""
        try:
            async for message in messages:
                yield message
        except Exception as error:
            self.error = error
            raise
