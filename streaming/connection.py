"""The HTTP connection: uvicorn's, with bounds on heads and on how long a client may stand still.

Without them one client can fill the memory with a head that never ends, and those that stand still
hold files and places for as long as they like.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 65_536
STALL_S = 60.0
LEAST_BYTES = 15_000
"""What comes of a body within STALL_S at least: 250 bytes/s, a third of what Opus takes."""


class HeadTooLarge(Exception):
    """The request's line and headers are over the limit."""


class BoundedHttp(HttpToolsProtocol):
    """Refuses heads over `MAX_HEAD_BYTES`; cuts off who takes longer than `STALL_S` for a head,
    sends nothing, or less than `LEAST_BYTES`, of a body that was begun within it, or reads nothing
    of an answer. WebSockets have clocks of their own."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = True
        self._awaited = True
        self._head_bytes = 0
        self._raw_bytes = 0
        self._heard_s = 0.0
        self._span_s = 0.0
        self._span_bytes = 0
        self._held = False
        self._unread_bytes = 0
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._begin_span()
        self._reading = self.loop.call_later(STALL_S, self._listen)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; what belongs to a head alone is counted before the parser keeps it."""
        self._heard_s = self.loop.time()
        self._span_bytes += len(data)
        began_in_head = self._in_head
        super().data_received(data)
        self._held |= self.flow.read_paused
        if self.transport.is_closing() or not (began_in_head and self._in_head):
            return
        self._raw_bytes += len(data)
        if self._raw_bytes > MAX_HEAD_BYTES:
            self.send_400_response(f"A request's head has at most {MAX_HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head_bytes = self._raw_bytes = 0
        self._in_head = self._awaited = True
        super().on_message_begin()
        self._begin_span()
        if self._reading is None:
            self._reading = self.loop.call_later(STALL_S, self._listen)

    def on_url(self, url: bytes) -> None:
        """More of the URL."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body is next."""
        self._in_head = False
        self._begin_span()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole: it is the server's turn."""
        self._awaited = False
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Another protocol takes over."""
        self._stop()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The client doesn't keep up."""
        super().pause_writing()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._writing = self.loop.call_later(STALL_S, self._watch)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _count(self, size_bytes: int) -> None:
        self._head_bytes += size_bytes
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge

    def _begin_span(self) -> None:
        """From now on a head, or the next `LEAST_BYTES` of a body, have `STALL_S`."""
        self._heard_s = self._span_s = self.loop.time()
        self._span_bytes = 0

    def _listen(self) -> None:
        """Cut off a client that owes the rest of a request, and sends none or too little of it."""
        self._reading = None
        if not self._awaited:
            return
        now_s = self.loop.time()
        if self._held:  # it was we who didn't read
            self._held = self.flow.read_paused
            self._begin_span()
        elif now_s >= self._heard_s + STALL_S:
            self._cut("sent nothing of its request")
            return
        elif now_s >= self._span_s + STALL_S:
            if self._in_head or self._span_bytes < LEAST_BYTES:
                self._cut("sent too little of its request")
                return
            self._begin_span()
        ends_s = min(self._heard_s, self._span_s) + STALL_S
        self._reading = self.loop.call_at(ends_s, self._listen)

    def _watch(self) -> None:
        """Cut off a client that has taken nothing since the last look."""
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes >= self._unread_bytes:
            self._cut("read nothing of its answer")
            return
        self._unread_bytes = unread_bytes
        self._writing = self.loop.call_later(STALL_S, self._watch)

    def _cut(self, why: str) -> None:
        self.logger.warning("a client %s for %g s and was cut off", why, STALL_S)
        self.transport.abort()

    def _stop(self) -> None:
        for timer in (self._reading, self._writing):
            if timer is not None:
                timer.cancel()
        self._reading = self._writing = None
