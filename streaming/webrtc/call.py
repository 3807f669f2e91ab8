"""One call: a WebRTC connection at one end, a session of a pipeline at the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import replace
from typing import Any

from ...components.errors import BadInput, MotetError
from ...components.frames import Samples
from ...pipelines.pipeline import Pipeline
from ..access.admission import Ticket
from ..access.auth import Principal
from ..access.callers import Caller
from ..converse import Observer, converse
from ..operate.observe import log_content
from ..realtime.driver import Conversing, Driver
from ..realtime.effects import Event, random_ids
from ..realtime.faults import server_error
from ..realtime.outgoing import Closed, Gone, Outgoing
from ..realtime.protocol import RealtimeProtocol
from ..server import Server
from .events import Events
from .ice import ice_servers
from .microphone import Microphone
from .peer import Peer
from .playout import Playout
from .protocol import CallProtocol
from .track import SpokenTrack

DOOR = "webrtc"
CONNECT_LIMIT_S = 20.0
# A caller who says nothing still reports what it has heard, by RTCP every few seconds.
SILENT_LIMIT_S = 15.0
WATCH_S = 2.0
FAREWELL_S = 1.0
MAX_AHEAD_S = 60.0
MAX_JOINED = 4
# The codes of ends that the protocol itself tells nothing of.
_UNTOLD = {1012: "server_restarting", 1013: "overloaded"}


class CallOutgoing(Outgoing):
    """The server events of a call, shown to all that take part in it. The pipeline's output waits
    while more than a minute of it is to be heard."""

    def __init__(self, playout: Playout, witness: Callable[[Event], None] | None) -> None:
        super().__init__(witness=witness)
        self.joined: set[Outgoing] = set()
        self.played = asyncio.Event()
        self._playout = playout

    def put(self, event: Event) -> None:
        """Add an event, for everybody."""
        super().put(event)
        for other in self.joined:
            other.put(event)

    async def room(self) -> None:
        """Wait until the caller has caught up, with its events and with its ears."""
        await super().room()
        while self._playout.queued_s > MAX_AHEAD_S:
            self.played.clear()
            await self.played.wait()


class Call:
    """Made for an offer; `run` is its one task, and `answered` has the answer once there is one.

    Nothing of it is left when `run` is over: neither when the caller vanishes, which 15 s without
    a packet tell, nor when it never connects.
    """

    def __init__(self, server: Server, pipeline: Pipeline, caller: Caller, ticket: Ticket) -> None:
        self.id = random_ids()("rtc")
        self.answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._server = server
        self._pipeline = pipeline
        self._caller = replace(caller, door=DOOR, wrap=self._wrap)
        self._ticket = ticket
        self._playout = Playout()
        witness = log_content if server.settings.log_content else None
        self._outgoing = CallOutgoing(self._playout, witness)
        self._ended = asyncio.Event()
        self._events = Events(self._overrun, self._ended)
        self._microphone = Microphone(self._overrun)
        self._protocol: CallProtocol | None = None
        self._driver: Driver | None = None
        self._observer: Observer | None = None
        self._counted = (0, 0)

    @property
    def principal(self) -> Principal:
        """Whose call it is."""
        return self._caller.principal

    async def run(self, offer: str) -> None:
        """The whole of the call; what goes wrong before the answer is raised from `answered`."""
        settings = self._server.settings
        sessions = self._server.metrics.sessions.labels(self._pipeline.name, DOOR)
        with self._ticket, sessions.track_inprogress():
            servers = ice_servers(settings.ice_servers)
            peer = Peer(SpokenTrack(self._pull), self._events.attach, self._ended, servers)
            try:
                answer = await peer.answer(offer, settings.ice_address)
                await self._converse(peer, answer)
            except MotetError as error:
                if self.answered.done():
                    raise
                self.answered.set_exception(error)
            finally:
                if not self.answered.done():
                    broken = MotetError("the call broke off before it was answered", where=DOOR)
                    self.answered.set_exception(broken)
                self._end_joined()
                await peer.close()
                await self._count(peer)

    def hang_up(self) -> None:
        """End it."""
        self._outgoing.end(Closed(1000, "The call was hung up."))

    @contextlib.contextmanager
    def joined(self) -> Generator[Outgoing | None]:
        """Take part; see `calls.Call`."""
        if self._protocol is None or len(self._outgoing.joined) >= MAX_JOINED:
            yield None
            return
        outgoing = Outgoing()
        outgoing.put(self._protocol.greeting())
        self._outgoing.joined.add(outgoing)
        try:
            yield outgoing
        finally:
            self._outgoing.joined.discard(outgoing)

    async def receive(self, message: str | bytes) -> None:
        """A client event of one that takes part."""
        if self._driver is None:
            raise Closed(1000, "The call is over.")
        await self._driver.receive(message)

    def received(self, size: int) -> None:
        """Count what came from one that takes part."""
        if self._observer is not None:
            self._observer.received(size)

    async def _converse(self, peer: Peer, answer: str) -> None:
        def serve(driver: Driver, observer: Observer) -> Iterable[Coroutine[Any, Any, None]]:
            self._observer = observer
            self.answered.set_result(answer)
            return self._tasks(peer, driver)

        ended = await converse(
            self._server,
            self._pipeline,
            self._caller,
            self._outgoing,
            serve,
            playback=self._playout,
        )
        if ended is not None and self._events.open:
            await self._farewell(ended)

    def _tasks(self, peer: Peer, driver: Driver) -> Iterable[Coroutine[Any, Any, None]]:
        yield self._hold(driver)
        yield self._watch(peer)
        yield self._write(peer)
        yield self._read(driver)
        if peer.track is not None:
            yield self._microphone.drain(peer.track)
            yield self._listen(driver)

    async def _hold(self, driver: Driver) -> None:
        """Let the caller's track and those that joined use the driver while it lasts."""
        self._driver = driver
        try:
            await asyncio.Future[None]()
        finally:
            self._driver = None

    async def _watch(self, peer: Peer) -> None:
        """End the call with its connection. Raises `Gone`."""
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                await peer.connected.wait()
        except TimeoutError:
            raise Gone from None
        loop = asyncio.get_running_loop()
        heard, heard_s = 0, loop.time()
        while not self._ended.is_set():
            received = await self._count(peer)
            if received != heard:
                heard, heard_s = received, loop.time()
            elif loop.time() - heard_s > SILENT_LIMIT_S:
                break
            if peer.overrun:
                self._overrun("a message without an end")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._ended.wait()
        raise Gone

    async def _write(self, peer: Peer) -> None:
        """Server events to the caller, who may have no channel for them."""
        while True:
            text = await self._outgoing.take()
            if not peer.has_channel:
                continue
            try:
                await self._events.send(text)
            except BadInput as error:
                await self._events.send(_error("event_too_large", error.message))

    async def _read(self, driver: Driver) -> None:
        while True:
            said = await self._events.take()
            if isinstance(said, BadInput):
                await driver.refuse(said)
            else:
                await driver.receive(said)

    async def _listen(self, driver: Driver) -> None:
        """The caller's audio to the pipeline."""
        loop, protocol = asyncio.get_running_loop(), self._protocol
        assert protocol is not None
        while True:
            sound, live = await self._microphone.take()
            if len(sound):
                effects = protocol.listen(sound, self._microphone.rate_hz, loop.time(), live=live)
                await driver.carry_out(effects)

    def _wrap(self, inner: RealtimeProtocol) -> Conversing:
        self._protocol = CallProtocol(inner, self._playout)
        return self._protocol

    def _pull(self) -> Samples | None:
        """The next 20 ms for the caller's ear."""
        if self._driver is None or self._protocol is None:
            return None
        pcm, effects = self._protocol.pull(asyncio.get_running_loop().time())
        self._outgoing.played.set()
        if effects:
            self._driver.apply(effects)
        return pcm

    def _overrun(self, why: str) -> None:
        self._outgoing.end(Closed(1013, f"Too much from the caller: {why}."))

    def _end_joined(self) -> None:
        for other in self._outgoing.joined:
            other.end(Closed(1000, "The call is over."))

    async def _farewell(self, ended: Closed) -> None:
        """Say why, where nothing has; wait a moment for what was said."""
        with contextlib.suppress(TimeoutError, Gone):
            async with asyncio.timeout(FAREWELL_S):
                if ended.code in _UNTOLD:
                    await self._events.send(_error(_UNTOLD[ended.code], ended.reason))
                await self._events.flushed()

    async def _count(self, peer: Peer) -> int:
        """Count the bytes that came and went since the last time; all that ever came."""
        before, self._counted = self._counted, await peer.traffic()
        bytes_of = self._server.metrics.bytes.labels
        for way, past, now in zip(("in", "out"), before, self._counted, strict=True):
            bytes_of(DOOR, way).inc(now - past)
        return self._counted[0]


def _error(code: str, message: str) -> str:
    """An `error` event about the call as a whole."""
    error = server_error(code, message) | {"param": None, "event_id": None}
    return json.dumps({"type": "error", "event_id": random_ids()("event"), "error": error})
