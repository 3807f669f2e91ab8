"""A client for one Chat-Completions server: a streamed answer as frames."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx

from ..base import Context
from ..frames import Frame
from ..httpstream import Endpoint, StreamClient
from .chat import Json
from .chatstream import ChatStream

__all__ = ["ChatClient", "Endpoint"]


class ChatClient(StreamClient):
    """Streams completions from one server; shared by every session, keeps its connections."""

    def __init__(
        self, endpoint: Endpoint, *, where: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        super().__init__(endpoint, where=where, path="/chat/completions", transport=transport)

    async def stream(
        self, body: Json, context: Context, *, spoken: bool
    ) -> AsyncGenerator[Frame, None]:
        """The frames of one completion. Closing the iterator closes the connection; raises what
        `StreamClient.events` raises."""
        started_s = time.monotonic()
        parser = ChatStream(spoken, where=self._where)
        first_ms, complete = 0.0, False
        async with aclosing(self.events(body, context)) as events:
            async for event in events:
                if event is None:
                    complete = True
                    break
                for frame in parser.feed(event):
                    first_ms = first_ms or (time.monotonic() - started_s) * 1000
                    yield frame
        for frame in parser.finish(first_ms, complete=complete):
            yield frame
