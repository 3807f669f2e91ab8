"""Server events on their way to a client, bounded, and the end that a door closes with."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable

from .effects import Event

FLUSH_LIMIT_S = 5.0


class Closed(Exception):
    """The conversation is to end, with a WebSocket close code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


class Gone(Exception):
    """The client has hung up, or can't be reached any more."""


class Outgoing:
    """Server events on their way to a client: bounded by bytes, so that a slow reader costs little.

    Above `soft_bytes` the pipeline's output has to wait (`room`), which slows the reply down to
    what the client takes; above `hard_bytes`, or when it takes nothing for `stall_s`, it is given
    up, code 1013. Audio of a response that is cancelled doesn't wait: it is dropped. `witness` is
    shown every event.
    """

    def __init__(
        self,
        *,
        soft_bytes: int = 8 << 20,
        hard_bytes: int = 16 << 20,
        stall_s: float = 15.0,
        witness: Callable[[Event], None] | None = None,
    ) -> None:
        self._soft_bytes = soft_bytes
        self._hard_bytes = hard_bytes
        self._stall_s = stall_s
        self._events: deque[tuple[str, str]] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._end: Closed | None = None
        self._witness = witness
        self.sent_bytes = 0

    def put(self, event: Event) -> None:
        """Add an event; nothing is added once the end is set."""
        if self._end is not None:
            return
        if self._witness is not None:
            self._witness(event)
        kind = event.get("type")
        if kind == "response.done" and event["response"]["status"] == "cancelled":
            self._drop_audio(event["response"]["id"])
        text = json.dumps(event, separators=(",", ":"))
        audio_of = event["response_id"] if kind == "response.output_audio.delta" else ""
        self._events.append((text, audio_of))
        self._bytes += len(text)
        if self._bytes > self._hard_bytes:
            self._events.clear()
            self.end(Closed(1013, "The client reads too slowly."))
        elif self._bytes > self._soft_bytes:
            self._room.clear()
        self._wake.set()

    def end(self, closed: Closed) -> None:
        """What is in comes out, then `take` raises this."""
        self._end = self._end or closed
        self._ending.set()
        self._wake.set()
        self._room.set()

    async def ended(self) -> None:
        """Wait for the end, and leave the client some time to take what is in. Raises `Closed`."""
        while self._end is None:
            self._ending.clear()
            await self._ending.wait()
        await asyncio.sleep(FLUSH_LIMIT_S)
        raise self._end

    async def take(self) -> str:
        """The next event as JSON. Raises `Closed` after the last."""
        while not self._events:
            if self._end is not None:
                raise self._end
            self._wake.clear()
            await self._wake.wait()
        text, _ = self._events.popleft()
        self.sent_bytes += len(text)
        self._freed(len(text))
        return text

    async def room(self) -> None:
        """Wait until the client has caught up. Raises `Closed` (1013) when it doesn't."""
        while not self._room.is_set():
            before = self.sent_bytes
            try:
                async with asyncio.timeout(self._stall_s):
                    await self._room.wait()
            except TimeoutError:
                if self.sent_bytes == before:
                    raise Closed(1013, "The client reads too slowly.") from None

    def _drop_audio(self, response_id: str) -> None:
        """A slow client mustn't hear out a reply that was interrupted."""
        kept = [(text, audio_of) for text, audio_of in self._events if audio_of != response_id]
        if len(kept) < len(self._events):
            self._freed(self._bytes - sum(len(text) for text, _ in kept))
            self._events = deque(kept)

    def _freed(self, size_bytes: int) -> None:
        self._bytes -= size_bytes
        if self._bytes <= self._soft_bytes:
            self._room.set()
