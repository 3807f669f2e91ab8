"""The data channel of a call: client events in, server events out, both bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiortc import RTCDataChannel

from ...components.errors import BadInput
from ..realtime.outgoing import Gone

MAX_MESSAGE_BYTES = 262_144
MAX_WAITING = 256
MAX_WAITING_BYTES = 4 << 20
MAX_CHANNELS = 8
LOW_BYTES = 256 << 10

Said = str | bytes | BadInput
"""A client's message, or what is wrong with it."""


class Events:
    """The first channel that the caller opens carries the events; further ones are closed.

    `overrun` is called when the caller sends faster than its messages are taken, or opens channels
    without end; `closed` is set when the channel is.
    """

    def __init__(self, overrun: Callable[[str], None], closed: asyncio.Event) -> None:
        self._overrun = overrun
        self._closed = closed
        self._channel: RTCDataChannel | None = None
        self._channels = 0
        self._opened = asyncio.Event()
        self._room = asyncio.Event()
        self._said: asyncio.Queue[Said] = asyncio.Queue(MAX_WAITING)
        self._waiting_bytes = 0

    @property
    def open(self) -> bool:
        """Whether something can be sent."""
        return self._channel is not None and self._channel.readyState == "open"

    def attach(self, channel: RTCDataChannel) -> None:
        """The caller opens a channel."""
        self._channels += 1
        if self._channels > MAX_CHANNELS:
            self._overrun(f"more than {MAX_CHANNELS} data channels")
        if self._channel is not None:
            channel.close()
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = LOW_BYTES
        channel.on("message", self._receive)
        channel.on("close", self._closed.set)
        channel.on("bufferedamountlow", self._room.set)
        self._opened.set()

    async def take(self) -> Said:
        """The next message of the caller."""
        said = await self._said.get()
        self._waiting_bytes -= _size(said)
        return said

    async def send(self, text: str) -> None:
        """Send a server event, once the channel is there and has room.

        Raises:
            Gone: the channel is closed.
            BadInput: the event is larger than the caller's side takes.
        """
        await self._opened.wait()
        channel = self._channel
        assert channel is not None
        while channel.bufferedAmount > LOW_BYTES:
            self._room.clear()
            await self._room.wait()
        if channel.readyState != "open":
            raise Gone
        try:
            channel.send(text)
        except ValueError as error:
            raise BadInput(f"an event of {len(text)} bytes: {error}", where="webrtc") from error

    async def flushed(self) -> None:
        """Wait until nothing waits to be sent."""
        channel = self._channel
        if channel is None:
            return
        channel.bufferedAmountLowThreshold = 0
        while self.open and channel.bufferedAmount:
            self._room.clear()
            await self._room.wait()

    def _receive(self, message: str | bytes) -> None:
        said: Said = message
        if _size(message) > MAX_MESSAGE_BYTES:
            said = BadInput(
                f"a message of {_size(message)} bytes; possible: {MAX_MESSAGE_BYTES}",
                where="webrtc",
            )
        if self._waiting_bytes + _size(said) > MAX_WAITING_BYTES or self._said.full():
            self._overrun("the events come faster than they can be taken")
            return
        self._waiting_bytes += _size(said)
        self._said.put_nowait(said)


def _size(said: Said) -> int:
    return 0 if isinstance(said, BadInput) else len(said)
