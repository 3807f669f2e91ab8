"""What carries a link between two processes, and how long a batch on it may be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from ...components.wire import motet_pb2 as pb


class Carrier(Protocol):
    """One open connection. `write` and `batches` are for one task each."""

    @property
    def write(self) -> Callable[[bytes], Awaitable[None]]:
        """Sends a serialized batch, waiting while the peer takes none.

        Raises:
            ComponentFailed: the connection is broken.
        """
        ...

    def batches(self) -> AsyncIterator[pb.Batch]:
        """The peer's batches until it closes.

        Raises:
            MotetError: the connection broke, or the peer sent what can't be read.
        """
        ...

    async def close(self) -> None:
        """Close it. Idempotent."""
        ...


class Listener(Protocol):
    """Waits for connections on one address; each is served until `serve` returns or raises."""

    async def start(self, *, also: Callable[[Any], None] | None = None) -> str:
        """Listen; returns the address bound. `also` may add more services to a gRPC server.

        Raises:
            ComponentFailed: the address can't be bound.
        """
        ...

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, close those there are within `grace_s`. Idempotent."""
        ...


Serve = Callable[[Carrier], Awaitable[None]]
