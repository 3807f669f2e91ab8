"""The calls on a link: those that this side makes, and those that it serves.

The side that serves components may call back within a run that it serves, where the caller lends it
fellows: such a call is served by them, and goes with the run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ...components.base import Context, Fellows, closing
from ...components.errors import ComponentFailed, MotetError, Overloaded, ReplicaGone
from ...components.frames import Frame
from ...components.wire import motet_pb2 as pb
from ...components.wire.codec import Codec
from .edge import DEFAULT_WINDOW
from .port import Outbox, Port

Handler = Callable[[str, AsyncIterator[Frame], Context], AsyncIterator[Frame]]


@dataclass(slots=True)
class _Lent:
    """The fellows lent to a call of this side, and the runs that they serve within it."""

    fellows: Fellows
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


class Calls:
    """Keeps the ports of one connection. Frames that come for a call that is over are dropped."""

    def __init__(
        self,
        outbox: Outbox,
        decoder: Codec,
        *,
        window: int,
        max_calls: int,
        handler: Handler | None = None,
    ) -> None:
        self.lost: MotetError | None = None
        self._outbox = outbox
        self._encoder = self._decoder = decoder
        self._window = window
        self._peer_window = window
        self._max_packet_bytes = 0
        self._max_calls = max_calls
        self._handler = handler
        self._ports: dict[int, Port] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._lent: dict[int, _Lent] = {}
        # Odd numbers for the side that connected, even ones for the side that serves.
        self._next_call = 1 if handler is None else 2

    @property
    def active(self) -> int:
        """Calls that are open."""
        return len(self._ports)

    def greet(self, encoder: Codec, *, window: int, max_packet_bytes: int) -> None:
        """The peer has said what it takes."""
        self._encoder = encoder
        self._peer_window = window
        self._max_packet_bytes = max_packet_bytes

    def lose(self, reason: MotetError) -> None:
        """The connection is gone: every open call fails with `reason`, every served one stops."""
        self.lost = reason
        for port in list(self._ports.values()):
            port.lost(reason)

    @contextmanager
    def told_gone(
        self, replica: str, node: str, lost: Callable[[MotetError], None] | None = None
    ) -> Generator[None]:
        """Around a call: the loss of the connection becomes that of the replica behind it."""
        try:
            yield
        except MotetError as error:
            if self.lost is None or error is not self.lost:
                raise
            if lost is not None:
                lost(error)
            raise ReplicaGone(f"{replica} is gone: {error}", where=node) from error

    async def settled(self) -> None:
        """Wait for the runs that this side serves."""
        await asyncio.gather(*self._serving.values(), return_exceptions=True)

    def receive(self, packet: pb.Packet) -> None:
        """Take a packet of a call.

        Raises:
            ProtocolFault: it can't come here and now.
        """
        port = self._ports.get(packet.call)
        if port is not None:
            port.receive(packet)
        elif packet.WhichOneof("body") == "open":
            self._accept(packet.call, packet.open)
        elif packet.WhichOneof("body") == "frame":
            self._decoder.discard(packet.frame)

    def _port(self, call: int, *, window: int, peer_window: int) -> Port:
        port = Port(
            call,
            self._outbox,
            encoder=self._encoder,
            decoder=self._decoder,
            window=window,
            peer_window=peer_window,
            max_packet_bytes=self._max_packet_bytes,
            ended=self._forget,
        )
        self._ports[call] = port
        return port

    def _forget(self, call: int) -> None:
        self._ports.pop(call, None)

    async def call(
        self,
        node: str,
        frames: AsyncIterator[Frame],
        context: Context,
        *,
        window: int = DEFAULT_WINDOW,
        within: int = 0,
    ) -> AsyncIterator[Frame]:
        """Run the peer's component on `frames`, with at most `window` of them under way; or, from
        `within` a call that the peer made, a fellow that it has.

        Raises:
            MotetError: what the component raised there, or the connection was lost.
        """
        if self.lost is not None:
            raise self.lost
        call = self._next_call
        self._next_call += 2
        window = min(window, self._peer_window)
        port = self._port(call, window=self._window, peer_window=window)
        remaining_s = context.remaining_s()
        opened = pb.Open(
            node=node,
            session=context.session_id,
            turn=context.turn,
            remaining_s=remaining_s,
            trace=context.trace,
            key=context.key,
            window=window,
            priority=context.priority,
            fellows=context.fellows is not None,
            within=within,
        )
        if context.fellows is not None:
            self._lent[call] = _Lent(context.fellows)
        # On the control lane, as a cancellation is, which must never come before it.
        packet = pb.Packet(call=port.call, open=opened)
        self._outbox.push(packet.SerializeToString(), control=True)
        port.expire_in(remaining_s)
        pump = asyncio.create_task(_pump(port, frames), name=f"input of {node} {port.call}")
        try:
            async for frame in port.frames():
                yield frame
        finally:
            lent = self._lent.pop(call, None)
            for task in lent.tasks if lent is not None else ():
                task.cancel()
            pump.cancel()
            port.stop()
            await asyncio.gather(pump, return_exceptions=True)

    def _accept(self, call: int, opened: pb.Open) -> None:
        window = min(opened.window, self._window) or self._window
        port = self._port(call, window=window, peer_window=self._peer_window)
        try:
            handler = self._handler_for(opened)
        except Overloaded as error:
            port.fail(error)
            return
        task = asyncio.create_task(
            self._serve(port, opened, handler), name=f"{opened.node} {opened.session} {call}"
        )
        self._serving[call] = task
        port.on_abort = lambda: _cancel(task)
        task.add_done_callback(lambda _: self._serving.pop(call, None))
        if opened.within:
            tasks = self._lent[opened.within].tasks
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def _handler_for(self, opened: pb.Open) -> Handler:
        """Who serves the call.

        Raises:
            Overloaded: nobody, or too many calls are open.
        """
        if len(self._ports) > self._max_calls:
            raise Overloaded(f"{len(self._ports)} calls are open", where=opened.node)
        lent = self._lent.get(opened.within)
        if lent is not None:
            return lambda node, frames, context: lent.fellows.call(frames)
        if opened.within or self._handler is None:
            raise Overloaded(f"nobody serves it within call {opened.within}", where=opened.node)
        return self._handler

    async def _serve(self, port: Port, opened: pb.Open, handler: Handler) -> None:
        remaining_s = opened.remaining_s if opened.HasField("remaining_s") else None
        context = Context(
            session_id=opened.session,
            turn=opened.turn,
            deadline_s=None if remaining_s is None else time.monotonic() + remaining_s,
            trace=opened.trace,
            key=opened.key,
            priority=opened.priority,
        )
        if opened.fellows:
            context = replace(context, fellows=_Beyond(self, opened.node, port.call, context))
        port.expire_in(remaining_s)
        try:
            async with closing(handler(opened.node, port.frames(), context)) as answers:
                async for frame in answers:
                    await port.send(frame)
            port.finish()
        except asyncio.CancelledError:
            port.fail(ComponentFailed("the replica stopped in the middle of the run"))
            raise
        except Exception as error:
            port.fail(error)
        finally:
            port.release()


class _Beyond:
    """The fellows of a run that is served here, which the peer knows."""

    def __init__(self, calls: Calls, node: str, within: int, context: Context) -> None:
        self._calls = calls
        self._node = node
        self._within = within
        self._context = context

    def call(self, frames: AsyncIterator[Frame]) -> AsyncIterator[Frame]:
        """See `Fellows`."""
        return self._calls.call(self._node, frames, self._context, within=self._within)


async def _pump(port: Port, frames: AsyncIterator[Frame]) -> None:
    """Send the caller's frames; what goes wrong with them ends the call."""
    try:
        async for frame in frames:
            await port.send(frame)
        port.finish()
    except Exception as error:
        port.fail(error)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
