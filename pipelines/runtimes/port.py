"""One end of one call on a link: frames out while there is credit, frames in as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from ...components.errors import BadInput, DeadlineExceeded, MotetError
from ...components.frames import Frame
from ...components.wire import motet_pb2 as pb
from ...components.wire.codec import Codec
from ...components.wire.faults import CANCELLED, from_abort, to_abort
from .edge import Incoming, Outgoing


class Outbox(Protocol):
    """Where a port puts its packets; `control` ones overtake frames."""

    def push(self, packet: bytes, *, control: bool = False) -> None:
        """Queue one serialized packet."""
        ...


class Port:
    """Belongs to one run. `send` and `frames` are for one task each; the link feeds `receive`.

    `ended` is called once, when both directions are over or the call was aborted.
    """

    def __init__(
        self,
        call: int,
        outbox: Outbox,
        *,
        encoder: Codec,
        decoder: Codec,
        window: int,
        peer_window: int,
        max_packet_bytes: int,
        ended: Callable[[int], None],
    ) -> None:
        self.call = call
        self.error: MotetError | None = None
        self.closed = False
        self.on_abort: Callable[[], None] | None = None
        self._outbox = outbox
        self._encoder = encoder
        self._decoder = decoder
        self._max_packet_bytes = max_packet_bytes
        self._ended = ended
        self._incoming = Incoming(window)
        self._outgoing = Outgoing(peer_window)
        self._waiting: deque[pb.Frame] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def expire_in(self, remaining_s: float | None) -> None:
        """End the call with `DeadlineExceeded` after so long; None never does."""
        if remaining_s is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, remaining_s), self._expire)

    def _expire(self) -> None:
        self.stop(DeadlineExceeded("the deadline has passed"))
        self._interrupt()

    async def send(self, frame: Frame) -> None:
        """Send a frame, waiting for the peer's credit.

        Raises:
            BadInput: the frame can't travel or is too large.
            MotetError: the call was aborted.
        """
        while not self._outgoing.may_send or self.closed:
            if self.error is not None:
                raise self.error
            if self.closed:
                raise MotetError("the call is over")
            self._writer = asyncio.get_running_loop().create_future()
            try:
                await self._writer
            finally:
                self._writer = None
        packet = pb.Packet(call=self.call, sequence=self._outgoing.sequence + 1)
        self._encoder.encode(frame, packet.frame)
        data = packet.SerializeToString()
        if len(data) > self._max_packet_bytes:
            self._encoder.discard(packet.frame)
            name = type(frame).__name__
            raise BadInput(f"a {name} of {len(data)} bytes; the limit is {self._max_packet_bytes}")
        self._outgoing.next()
        self._outbox.push(data)

    def finish(self) -> None:
        """Say that no more frames come from here. Idempotent."""
        if self._outgoing.finished or self.closed:
            return
        count = self._outgoing.finish()
        packet = pb.Packet(call=self.call, sequence=count, done=pb.Done())
        self._outbox.push(packet.SerializeToString())
        self._settle()

    def fail(self, error: BaseException) -> None:
        """Abort the call for this reason, behind the frames that were sent before."""
        if not self.closed:
            packet = pb.Packet(call=self.call, abort=to_abort(error))
            self._outbox.push(packet.SerializeToString())
            self.error = error if isinstance(error, MotetError) else from_abort(packet.abort)
            self.release()

    def stop(self, error: MotetError | None = None) -> None:
        """Abort the call at once, overtaking its frames; without an error, nobody wants it."""
        if not self.closed:
            abort = to_abort(error) if error else pb.Abort(code=CANCELLED)
            packet = pb.Packet(call=self.call, abort=abort)
            self._outbox.push(packet.SerializeToString(), control=True)
            self.error = error
        self._discard()
        self.release()

    def lost(self, error: MotetError) -> None:
        """The connection is gone: what came may still be taken, then `error` is raised."""
        if not self.closed:
            self.error = error
            self.release()
            self._interrupt()

    def receive(self, packet: pb.Packet) -> None:
        """Take a packet of this call from the link.

        Raises:
            ProtocolFault: it can't come here and now.
        """
        match packet.WhichOneof("body"):
            case "frame":
                self._incoming.accept(packet.sequence)
                self._waiting.append(packet.frame)
                _wake(self._reader)
            case "credit":
                self._outgoing.grant(packet.credit.frames)
                _wake(self._writer)
            case "done":
                self._incoming.finish(packet.sequence)
                _wake(self._reader)
                self._settle()
            case "abort":
                self._aborted(packet.abort)
            case _:
                pass

    def _aborted(self, abort: pb.Abort) -> None:
        """The peer has ended the call: at once if cancelled or late, else after its frames."""
        if abort.code == CANCELLED:
            self.error = MotetError("the call was cancelled")
        else:
            self.error = from_abort(abort)
        if abort.code in (CANCELLED, DeadlineExceeded.code):
            self._interrupt()
        self.release()

    def _interrupt(self) -> None:
        if self.on_abort is not None:
            self._discard()
            self.on_abort()

    async def frames(self) -> AsyncIterator[Frame]:
        """The peer's frames until its end.

        Raises:
            MotetError: the peer aborted the call, or the connection was lost.
        """
        while True:
            while not self._waiting:
                if self.error is not None:
                    raise self.error
                if self._incoming.finished or self.closed:
                    return
                self._reader = asyncio.get_running_loop().create_future()
                try:
                    await self._reader
                finally:
                    self._reader = None
            frame = self._decoder.decode(self._waiting.popleft())
            self._grant(self._incoming.taken())
            yield frame

    def _grant(self, frames: int) -> None:
        if frames and not self.closed:
            packet = pb.Packet(call=self.call, credit=pb.Credit(frames=frames))
            self._outbox.push(packet.SerializeToString(), control=True)

    def _settle(self) -> None:
        if self._incoming.finished and self._outgoing.finished:
            self.release()

    def _discard(self) -> None:
        while self._waiting:
            self._decoder.discard(self._waiting.popleft())

    def release(self) -> None:
        """Nothing more is sent or awaited here; what has come may still be taken. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        _wake(self._reader)
        _wake(self._writer)
        self._ended(self.call)


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
