"""All calls between two processes over one stream of batches, which writes whatever is pending.

The link knows no transport: it is given a way to write bytes and an iterator of batches. The side
that serves gives a `handler`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from ...components.errors import ComponentFailed, MotetError
from ...components.wire import motet_pb2 as pb
from ...components.wire.blobs import BlobStore
from ...components.wire.codec import MAX_BYTES, Codec
from ...components.wire.faults import from_abort
from .calls import Calls, Handler
from .edge import DEFAULT_WINDOW, Liveness, ProtocolFault

VERSION = 1
BATCH_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Bounds of a link. `window` frames are under way per direction of a call."""

    window: int = DEFAULT_WINDOW
    max_message_bytes: int = MAX_BYTES
    max_calls: int = 4096
    heartbeat_s: float = 1.0
    patience_s: float = 5.0


@dataclass(slots=True)
class Counters:
    """What a link has moved, for measuring."""

    batches: int = 0
    packets: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Peer:
    """What is known about the other side: its hello, and the last status it sent."""

    hello: pb.Hello | None = None
    status: pb.Status = field(default_factory=pb.Status)


class Link:
    """One connection. `run` moves packets until it ends; `call` starts a call at the peer."""

    def __init__(
        self,
        *,
        node: str = "",
        handler: Handler | None = None,
        store: BlobStore | None = None,
        settings: LinkSettings | None = None,
        on_status: Callable[[pb.Status], None] | None = None,
        on_drain: Callable[[], None] | None = None,
        incarnation: str | None = None,
        component: str = "",
    ) -> None:
        self.settings = settings or LinkSettings()
        self.peer = Peer()
        self.counters = Counters()
        self.incarnation = incarnation or secrets.token_hex(8)
        self.closed: MotetError | None = None
        self._node = node
        self._component = component
        self._store = store
        self._on_status = on_status
        self._on_drain = on_drain
        self._decoder = Codec(store, max_bytes=self.settings.max_message_bytes)
        self.calls = Calls(
            self,
            self._decoder,
            window=self.settings.window,
            max_calls=self.settings.max_calls,
            handler=handler,
        )
        self._control: deque[bytes] = deque()
        self._data: deque[bytes] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._greeted = asyncio.Event()
        self._parting = False
        self._said_goodbye = False
        self._liveness = Liveness(self.settings.heartbeat_s, self.settings.patience_s)

    @property
    def silent(self) -> bool:
        """Whether the peer should have been heard by now."""
        return self._liveness.silent(time.monotonic())

    def push(self, packet: bytes, *, control: bool = False) -> None:
        """Queue one serialized packet; control packets overtake frames."""
        if self.closed is None:
            (self._control if control else self._data).append(packet)
            self._wake()

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _say(self, packet: pb.Packet) -> None:
        self.push(packet.SerializeToString(), control=True)

    def report(self, status: pb.Status) -> None:
        """Tell the peer how this side does."""
        self._say(pb.Packet(status=status))

    def drain(self) -> None:
        """Ask the peer to finish what runs and to take nothing more."""
        self._say(pb.Packet(drain=pb.Drain()))

    async def part(self) -> None:
        """End the connection on purpose once what is queued was written."""
        self._say(pb.Packet(goodbye=pb.Goodbye()))
        self._parting = True
        self._wake()

    async def greeted(self) -> pb.Hello:
        """Wait for the peer's hello.

        Raises:
            MotetError: the connection was lost before it came.
        """
        await self._greeted.wait()
        if self.peer.hello is None:
            raise self.closed or ComponentFailed("the connection ended before the hello")
        return self.peer.hello

    async def run(
        self, write: Callable[[bytes], Awaitable[None]], batches: AsyncIterator[pb.Batch]
    ) -> None:
        """Move packets until the connection ends; then every open call has failed.

        Returns when either side said goodbye.

        Raises:
            ComponentFailed: the peer died, fell silent or closed without a goodbye.
            ProtocolFault: the peer broke the protocol.
        """
        reason: MotetError = ComponentFailed("the connection was closed")
        self._liveness.start(time.monotonic())
        self._say(pb.Packet(hello=self._hello()))
        tasks = [
            asyncio.create_task(work, name=f"link {self._node} {name}")
            for name, work in (
                ("reads", self._read(batches)),
                ("writes", self._write(write)),
                ("beats", self._beat()),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if isinstance(error, MotetError):
                    reason = error
                elif error is not None:
                    reason = ComponentFailed(f"the connection broke: {error}")
            if not self._parting and not self._said_goodbye:
                raise reason
        finally:
            for task in tasks:
                task.cancel()
            self._end(reason)
            await asyncio.gather(*tasks, self.calls.settled(), return_exceptions=True)

    def _hello(self) -> pb.Hello:
        return pb.Hello(
            version=VERSION,
            incarnation=self.incarnation,
            node=self._node,
            window=self.settings.window,
            max_message_bytes=self.settings.max_message_bytes,
            shared_memory=self._store.folder.name if self._store else "",
            component=self._component,
        )

    def _end(self, reason: MotetError) -> None:
        self.closed = reason
        self._greeted.set()
        self.calls.lose(reason)

    async def _write(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write whatever is pending: what the tasks add that are ready with the first one, and
        what has come while the last batch was on its way.
        """
        loop = asyncio.get_running_loop()
        while True:
            if self._control and not self._data:
                await asyncio.sleep(0)  # control packets ride with the frames that they cause
            batch = self._gather()
            if batch:
                self._liveness.said(time.monotonic())
                await write(batch)
            elif self._parting:
                return
            else:
                self._idle = loop.create_future()
                await self._idle

    def _gather(self) -> bytes:
        """The next batch: all control packets, then frames up to about `BATCH_BYTES`.

        A batch is the concatenation of its packets as field 1, which is what protobuf would write;
        the packets were serialized one by one, so that each caller met its own errors.
        """
        parts: list[bytes] = []
        size = 0
        while self._control or (self._data and size < BATCH_BYTES):
            packet = (self._control or self._data).popleft()
            parts += (b"\x0a", _varint(len(packet)), packet)
            size += len(packet)
        self.counters.batches += bool(parts)
        self.counters.packets += len(parts) // 3
        self.counters.bytes += size
        return b"".join(parts)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.settings.heartbeat_s)
            if self._liveness.tick(time.monotonic()):
                self._say(pb.Packet(heartbeat=pb.Heartbeat()))

    async def _read(self, batches: AsyncIterator[pb.Batch]) -> None:
        async for batch in batches:
            self._liveness.heard(time.monotonic())
            for packet in batch.packets:
                self._receive(packet)
            if self._said_goodbye:
                return
        raise ComponentFailed("the peer closed the connection without a goodbye")

    def _receive(self, packet: pb.Packet) -> None:
        if packet.call:
            self.calls.receive(packet)
            return
        match packet.WhichOneof("body"):
            case "hello":
                self._greet(packet.hello)
            case "status":
                self.peer.status = packet.status
                if self._on_status is not None:
                    self._on_status(packet.status)
            case "drain" if self._on_drain is not None:
                self._on_drain()
            case "goodbye":
                self._said_goodbye = True
            case "abort":
                raise from_abort(packet.abort)
            case _:
                pass

    def _greet(self, hello: pb.Hello) -> None:
        if hello.version != VERSION:
            raise ProtocolFault(f"the peer speaks version {hello.version}, here it is {VERSION}")
        self.peer.hello = hello
        limit = min(self.settings.max_message_bytes, hello.max_message_bytes)
        shared = self._store is not None and self._store.sees(hello.shared_memory)
        encoder = Codec(self._store if shared else None, max_bytes=limit)
        self.calls.greet(encoder, window=hello.window, max_packet_bytes=limit)
        self._greeted.set()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
