"""Bodies of requests: bounded before anything is made of them."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .fetch import TooLarge
from .problems import of_error

ON_DISK = "motet.on_disk"
"""Set in the scope of a request whose body goes to disk, with a limit of its own."""


class Bounded:
    """ASGI middleware that refuses (413) bodies over `limit_bytes`, which handlers hold in memory.

    Forms with files go to disk where a handler expects one (`upload.received`).
    """

    def __init__(self, app: ASGIApp, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what comes in; after too much of it, what the handler says is replaced."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        form = headers.get("content-type", "").startswith("multipart/form-data")
        told = headers.get("content-length", "")
        if not form and told.isdecimal() and int(told) > self._limit_bytes:
            await self._refusal(f"{told} bytes")(scope, receive, send)
            return
        total, started, over = 0, False, False

        async def counted() -> Message:
            nonlocal total, over
            message = await receive()
            total += len(message.get("body", b""))
            if total > self._limit_bytes and ON_DISK not in scope:
                over = True
                raise TooLarge("the body", where="body")
            return message

        async def answered(message: Message) -> None:
            nonlocal started
            if over and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, counted, answered)
        except TooLarge:
            if not over or started:
                raise
        if over and not started:
            await self._refusal(f"more than {self._limit_bytes} bytes")(scope, receive, send)

    def _refusal(self, got: str) -> Response:
        error = TooLarge(
            f"{got}; at most {self._limit_bytes} are taken; files may be more, as parts of a form",
            where="body",
        )
        return of_error(error)
