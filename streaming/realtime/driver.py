"""Carries a realtime protocol's effects out: its one owner, between a client and a pipeline.

Any door can use it, whatever its wire: it gets client events by `receive`, and puts server events
into an `Outgoing`, which the door empties.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ...components.errors import BadInput, MotetError, Overloaded
from ...components.frames import End, Fault, Frame
from ...pipelines.session import Session
from .effects import Cancel, Close, Effect, Feed, Open, Report, Send
from .faults import ClientError
from .outgoing import Closed, Outgoing

FEED_LIMIT_S = 10.0


class Conversing(Protocol):
    """What a driver drives: the realtime protocol, or one of another dialect around it."""

    def start(self) -> list[Effect]: ...

    def receive(self, message: str | bytes | dict[str, Any], now_s: float) -> list[Effect]: ...

    def hear(self, turn: int, node: str, frame: Frame, now_s: float) -> list[Effect]: ...

    def tick(self, now_s: float) -> list[Effect]: ...

    def next_deadline(self) -> float: ...

    def refuse(self, error: BadInput) -> list[Effect]: ...


class Driver:
    """Runs one session. `run` and `receive` belong to one task group; when it ends, `close`."""

    def __init__(
        self,
        protocol: Conversing,
        session: Session,
        outgoing: Outgoing,
        *,
        report: Callable[[Report], None],
        fault: Callable[[Fault], None],
    ) -> None:
        self._protocol = protocol
        self._session = session
        self._outgoing = outgoing
        self._report = report
        self._fault = fault
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._faults: deque[tuple[int, Fault]] = deque()
        self._taken: dict[type[Frame], bool] = {}

    async def start(self) -> None:
        """Send `session.created`; nothing received before is lost, as nothing was read."""
        await self.carry_out(self._protocol.start())

    async def receive(self, message: str | bytes | dict[str, Any]) -> None:
        """A client's event. Waits while the pipeline can't take more audio; where that is for too
        long, the conversation ends (1013)."""
        await self.carry_out(self._protocol.receive(message, self._loop.time()))

    async def refuse(self, error: BadInput) -> None:
        """Tell the client of an error outside of any event."""
        await self.carry_out(self._protocol.refuse(error))

    async def run(self) -> None:
        """Pass on what the pipeline says, until its session is closed."""
        async for turn, node, frame in self._session:
            if isinstance(frame, Fault):
                self._fault(frame)
            self.apply(self._protocol.hear(turn, node, frame, self._loop.time()))
            await self._outgoing.room()

    def close(self) -> None:
        """Stop the clock. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def carry_out(self, effects: list[Effect]) -> None:
        """Do what the protocol says; waits as `receive` does."""
        if len(effects) == 1 and isinstance(effects[0], Feed):
            # Audio, fifty times a second: it moves no deadline forward.
            await self._feed(effects[0].frame)
            return
        self.apply(effects)
        for effect in effects:
            if isinstance(effect, Feed):
                await self._feed(effect.frame)

    def apply(self, effects: list[Effect]) -> None:
        """Do it at once, all but the feeds: what the client sees never waits for the pipeline."""
        for effect in effects:
            match effect:
                case Send(event):
                    self._outgoing.put(event)
                case Open(turn, frames):
                    self._open(turn, frames)
                case Cancel(turn):
                    self._session.interrupt(turn)
                case Close(code, reason):
                    self._outgoing.end(Closed(code, reason))
                case Report():
                    self._report(effect)
                case Feed():
                    pass
        self._rearm()

    def _open(self, turn: int, frames: tuple[Frame, ...]) -> None:
        """Start a turn; where that fails, it ends at once with a fault, by way of the clock."""
        usable = [frame for frame in frames if self._takes(type(frame))]
        try:
            if not usable:
                name = self._session.graph.name
                raise BadInput(f"{name!r} has no language model", where="conversation")
            self._session.start(turn, *usable)
        except MotetError as error:
            self._faults.append((turn, Fault("", error.code, str(error))))

    def _takes(self, kind: type[Frame]) -> bool:
        """Whether the pipeline has a node for such frames; asked 50 times a second."""
        known = self._taken.get(kind)
        if known is None:
            known = self._taken[kind] = bool(self._session.graph.entries(kind))
        return known

    async def _feed(self, frame: Frame) -> None:
        if not self._takes(type(frame)):
            return
        try:
            if self._session.offer(frame):
                return
            async with asyncio.timeout(FEED_LIMIT_S):
                await self._session.send(frame)
        except (TimeoutError, Overloaded):
            overload = ClientError("overloaded", "The server can't keep up with the audio.")
            self.apply(self._protocol.refuse(overload))
            self._outgoing.end(Closed(1013, overload.message))
        except BadInput as error:
            self._outgoing.end(Closed(1011, error.message))

    def _rearm(self) -> None:
        """One timer, moved only when it would ring too late."""
        due_s = self._loop.time() if self._faults else self._protocol.next_deadline()
        if self._timer is None or self._timer.cancelled() or self._timer.when() > due_s:
            self.close()
            self._timer = self._loop.call_at(due_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        while self._faults:
            turn, fault = self._faults.popleft()
            self._fault(fault)
            for frame in (fault, End()):
                self.apply(self._protocol.hear(turn, fault.node, frame, now_s))
        self.apply(self._protocol.tick(now_s))
