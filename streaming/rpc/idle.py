"""Streams that stand still: ended by the rule that bounds realtime sessions, `sessions.idle_s`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ...components.errors import DeadlineExceeded

if TYPE_CHECKING:
    from .door import Context

Message = TypeVar("Message")


class Watch:
    """The clock of one stream. Once the client has closed its side, only its reading counts: the
    work may take its time."""

    def __init__(self, limit: asyncio.Timeout, idle_s: float) -> None:
        self._limit = limit
        self._idle_s = idle_s
        self._open = True

    async def heard(self, requests: AsyncIterator[Message]) -> AsyncIterator[Message]:
        """The client's messages, each of which sets the clock back."""
        async for request in requests:
            self._wind(running=True)
            yield request
        self._open = False
        self._wind(running=False)

    async def tell(self, context: Context, answer: Any) -> None:
        """Send an answer; what the client doesn't read holds it up."""
        self._wind(running=True)
        await context.write(answer)
        self._wind(running=self._open)

    def _wind(self, *, running: bool) -> None:
        if not self._limit.expired():
            now_s = asyncio.get_running_loop().time()
            self._limit.reschedule(now_s + self._idle_s if running else None)


@asynccontextmanager
async def watched(idle_s: float) -> AsyncGenerator[Watch]:
    """While inside, the client must say or read something every `idle_s`.

    Raises:
        DeadlineExceeded: it doesn't.
    """
    limit = asyncio.timeout(idle_s)
    try:
        async with limit:
            yield Watch(limit, idle_s)
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"nothing was said or read for {idle_s:g} s", where="Run") from None
