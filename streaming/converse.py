"""One session, at whichever door: the pipeline's side of it, and how it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from traceback import clear_frames
from typing import Any

from ..components.frames import Fault
from ..pipelines.pipeline import Pipeline
from ..pipelines.playback import Playback
from ..pipelines.version import Version
from .access.callers import Caller
from .offer import offer_of
from .operate.observe import TurnRecord, record_turn
from .realtime.driver import Driver
from .realtime.effects import Report
from .realtime.merge import merged
from .realtime.outgoing import Closed, Gone, Outgoing
from .realtime.protocol import RealtimeProtocol
from .realtime.settings import Settings
from .server import Server

COUNTED_BYTES = 65_536

Serve = Callable[[Driver, "Observer"], Iterable[Coroutine[Any, Any, None]]]
"""The door's own tasks of a session: what reads from the client and what writes to it."""


async def converse(
    server: Server,
    pipeline: Pipeline,
    caller: Caller,
    outgoing: Outgoing,
    serve: Serve,
    *,
    playback: Playback | None = None,
) -> Closed | None:
    """Run the session's tasks until one of them ends it; how to close, None if the client has.

    A task of the door ends it by `Closed` or `Gone`. `playback`: see `RealtimeProtocol`.

    Raises:
        Overloaded: the pipeline takes no more sessions.
        ClientError: the pipeline, changed since, can't begin with what an ephemeral key wishes.
    """
    version = pipeline.pick()
    inner = begin(version, caller, playback)
    protocol = caller.wrap(inner) if caller.wrap is not None else inner
    observer = Observer(server, version, inner.session_id, caller.door)
    ended: list[Closed] = []
    key = caller.principal.name
    made = version.session(session_id=inner.session_id, key=key, priority=caller.principal.priority)
    async with made as session:
        driver = Driver(protocol, session, outgoing, report=observer.report, fault=observer.fault)
        try:
            async with asyncio.TaskGroup() as group:
                await driver.start()
                for task in serve(driver, observer):
                    group.create_task(task)
                group.create_task(driver.run())
                group.create_task(outgoing.ended())
                group.create_task(leave(server.stopping, outgoing, "The server is restarting."))
                group.create_task(leave(session.evicted, outgoing, "There is a new version."))
        except* Closed as closed:
            ended = [error for error in closed.exceptions if isinstance(error, Closed)]
            # Until Python 3.13 a group's frame holds what it raised, which holds the frame.
            clear_frames(closed.__traceback__)
        except* Gone as gone:
            ended = []
            clear_frames(gone.__traceback__)
        finally:
            driver.close()
            observer.flush()
    return ended[0] if ended else None


def begin(version: Version, caller: Caller, playback: Playback | None = None) -> RealtimeProtocol:
    """The protocol of a new session, with the bounds of the pipeline file."""
    offer, bounds = offer_of(version), version.graph.spec.sessions
    settings = Settings.initial(offer, "transcription" if caller.transcription else "realtime")
    for wish in caller.wishes:
        settings = merged(settings, wish, offer)
    return RealtimeProtocol(
        offer,
        now_s=asyncio.get_running_loop().time(),
        settings=settings,
        timings=caller.timings,
        expires_at=int(time.time() + bounds.max_age_s),
        max_age_s=bounds.max_age_s,
        idle_s=bounds.idle_s,
        playback=playback,
    )


async def leave(end: asyncio.Event, outgoing: Outgoing, why: str) -> None:
    """Tell the client to come back when what serves it ends."""
    await end.wait()
    outgoing.end(Closed(1012, why))


class Observer:
    """Feeds what a session does into the server's metrics and log."""

    def __init__(self, server: Server, version: Version, session_id: str, door: str) -> None:
        self._metrics = server.metrics
        self._door = door
        self._pipeline = version.name
        self._version = version.id
        self._session_id = session_id
        self._bytes_in = server.metrics.bytes.labels(door, "in")
        self._received = 0

    def received(self, size: int) -> None:
        """A message came in; counted in lots, since a call has fifty a second."""
        self._received += size
        if self._received >= COUNTED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Count what came in since the last time."""
        self._bytes_in.inc(self._received)
        self._received = 0

    def report(self, report: Report) -> None:
        """A response is over."""
        record_turn(
            self._metrics,
            TurnRecord(
                self._pipeline,
                self._door,
                self._session_id,
                report.response_id,
                report.outcome,
                **report.stages_ms,
                input_tokens=report.usage.input_tokens,
                output_tokens=report.usage.output_tokens,
                audio_ms=report.audio_ms,
                version=self._version,
            ),
        )

    def fault(self, fault: Fault) -> None:
        """A component failed."""
        self._metrics.faults.labels(self._pipeline, fault.node, fault.code).inc()
