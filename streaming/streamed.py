"""Streamed answers that leave nothing behind, also where they never begin."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class Streamed(StreamingResponse):
    """A streamed answer, after which `closing` are called, in order and however it ends.

    A client may be gone before the first byte: then the generator is never begun, and what it
    would close at its end is closed by nobody.
    """

    def __init__(
        self,
        content: AsyncIterable[str] | AsyncIterable[bytes],
        media_type: str,
        *closing: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(content, media_type=media_type)
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send, then close."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            for close in self._closing:
                await close()
