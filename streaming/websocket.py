"""`/v1/realtime`: the WebSocket around the realtime protocol, and nothing of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from ..components.errors import MotetError, Overloaded
from ..components.frames import Fault
from ..pipelines.pipeline import Pipeline
from ..pipelines.version import Version
from .admission import Admission, Ticket
from .auth import EPHEMERAL_PREFIX, PRIORITY_HEADER, Principal, bearer
from .events import SessionPatch
from .observe import TurnRecord, log_content, record_turn
from .offer import offer_of, pipeline_for
from .origin import origin_allowed
from .realtime.driver import Conversing, Driver
from .realtime.effects import Report
from .realtime.faults import ClientError, error_body
from .realtime.merge import merged
from .realtime.outgoing import FLUSH_LIMIT_S, Closed, Outgoing
from .realtime.protocol import RealtimeProtocol
from .realtime.settings import Settings
from .secrets import router as secret_routes
from .secrets import secret_of
from .server import Forbidden, Server

DOOR = "realtime"
COUNTED_BYTES = 65_536
KEY_PROTOCOL = "openai-insecure-api-key."


@dataclass(frozen=True, slots=True)
class Caller:
    """Who connects, on what terms: an ephemeral key brings the wishes to begin with.

    `wrap` puts the dialect of another door around the protocol.
    """

    principal: Principal
    model: str | None
    wish: SessionPatch | None = None
    timings: bool = False
    transcription: bool = False
    door: str = DOOR
    wrap: Callable[[RealtimeProtocol], Conversing] | None = None


def router(server: Server, admission: Admission | None = None) -> APIRouter:
    """The WebSocket, and the routes that make ephemeral keys for it.

    `admission` is what other doors that hold sessions share with this one; None makes its own
    from the server's settings.
    """
    settings, routes = server.settings, APIRouter()
    admission = admission or Admission(settings.max_sessions, settings.max_sessions_per_key)
    routes.include_router(secret_routes)

    @routes.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket) -> None:  # pyright: ignore[reportUnusedFunction]
        offered: list[str] = websocket.scope.get("subprotocols") or []
        await websocket.accept(subprotocol="realtime" if "realtime" in offered else None)
        try:
            check_generation(websocket)
            caller = await identify(websocket, server)
            pipeline = pipeline_for(server, caller.model)
        except MotetError as error:
            await refuse(websocket, 1008, error, server)
            return
        most = caller.principal.max_sessions
        ticket = admission.try_enter(caller.principal.name, most)
        if ticket is None:
            full = Overloaded("all sessions are taken; try again later")
            await refuse(websocket, 1013, full, server)
            return
        await hold(websocket, server, pipeline, caller, ticket)

    return routes


def check_generation(websocket: WebSocket) -> None:
    """Turn away what would wait for ever: clients of the beta, whose events had other names, and
    those that join a call made elsewhere.

    Raises:
        BadInput: it is one of them.
    """
    offered: list[str] = websocket.scope.get("subprotocols") or []
    beta = "realtime=v1" in websocket.headers.get("openai-beta", "")
    if beta or any(name.startswith("openai-beta.") for name in offered):
        raise ClientError(
            "beta_api_shape_disabled",
            "The Realtime beta is not served; use the generally available API: `client.realtime`,"
            " without the header OpenAI-Beta.",
        )
    if "call_id" in websocket.query_params:
        raise ClientError("call_not_found", "There are no calls to join here.", "call_id")


async def identify(websocket: WebSocket, server: Server) -> Caller:
    """Who connects, by header, by subprotocol (browsers can't set headers), or ephemeral key.

    Raises:
        Unauthorized: a key is needed and this is none, or one that has expired.
        Forbidden: a page of a foreign origin asks.
    """
    query = websocket.query_params
    offered: list[str] = websocket.scope.get("subprotocols") or []
    keys = (name.removeprefix(KEY_PROTOCOL) for name in offered if name.startswith(KEY_PROTOCOL))
    key = next(keys, None) or bearer(websocket.headers)
    timings, transcribes = query.get("timings") == "1", query.get("intent") == "transcription"
    if key is None or not key.startswith(EPHEMERAL_PREFIX):
        principal = server.authenticate(websocket.headers, key)
        return Caller(principal, query.get("model"), None, timings, transcribes)
    if not origin_allowed(websocket.headers, server.settings):
        raise Forbidden("this page may not connect; see --allow-origins", where="origin")
    secret = await secret_of(server, key)
    principal = secret.principal.asking(websocket.headers.get(PRIORITY_HEADER))
    model = query.get("model") or secret.model
    return Caller(principal, model, secret.wish, timings, secret.kind == "transcription")


async def hold(
    websocket: WebSocket, server: Server, pipeline: Pipeline, caller: Caller, ticket: Ticket
) -> None:
    """One session, from its first event until everything of it is gone, however it ends."""
    outgoing = Outgoing(witness=log_content if server.settings.log_content else None)
    with ticket, server.metrics.sessions.labels(pipeline.name, caller.door).track_inprogress():
        try:
            ended = await converse(websocket, server, pipeline, caller, outgoing)
        except Overloaded as error:
            await refuse(websocket, 1013, error, server)
            return
        except ClientError as error:
            await refuse(websocket, 1008, error, server)
            return
        finally:
            server.metrics.bytes.labels(caller.door, "out").inc(outgoing.sent_bytes)
    if ended is not None:
        await close(websocket, ended.code, ended.reason)


async def converse(
    websocket: WebSocket,
    server: Server,
    pipeline: Pipeline,
    caller: Caller,
    outgoing: Outgoing,
) -> Closed | None:
    """Run the session's tasks until one of them ends it; how to close, None if the client has.

    Raises:
        Overloaded: the pipeline takes no more sessions.
        ClientError: the pipeline, changed since, can't begin with what an ephemeral key wishes.
    """
    version = pipeline.pick()
    inner = begin(version, caller)
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
                group.create_task(read(websocket, driver, observer.received))
                group.create_task(write(websocket, outgoing))
                group.create_task(driver.run())
                group.create_task(outgoing.ended())
                group.create_task(leave(server.stopping, outgoing, "The server is restarting."))
                group.create_task(leave(session.evicted, outgoing, "There is a new version."))
        except* Closed as closed:
            ended = [error for error in closed.exceptions if isinstance(error, Closed)]
        except* WebSocketDisconnect:
            ended = []
        finally:
            driver.close()
            observer.flush()
    return ended[0] if ended else None


def begin(version: Version, caller: Caller) -> RealtimeProtocol:
    """The protocol of a new session, with the bounds of the pipeline file."""
    offer, bounds = offer_of(version), version.graph.spec.sessions
    settings = Settings.initial(offer, "transcription" if caller.transcription else "realtime")
    if caller.wish is not None:
        settings = merged(settings, caller.wish, offer)
    return RealtimeProtocol(
        offer,
        now_s=asyncio.get_running_loop().time(),
        settings=settings,
        timings=caller.timings,
        expires_at=int(time.time() + bounds.max_age_s),
        max_age_s=bounds.max_age_s,
        idle_s=bounds.idle_s,
    )


async def read(websocket: WebSocket, driver: Driver, received: Callable[[int], None]) -> None:
    """Client events to the protocol. Raises `WebSocketDisconnect` when the client hangs up."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        content: str | bytes = message.get("text") or message.get("bytes") or ""
        received(len(content))
        await driver.receive(content)


async def write(websocket: WebSocket, outgoing: Outgoing) -> None:
    """Server events to the client, as fast as it takes them. Raises `Closed` at the end."""
    while True:
        await websocket.send_text(await outgoing.take())


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


async def refuse(websocket: WebSocket, code: int, error: Exception, server: Server) -> None:
    """An `error` event that says why, then the close code that says whether to come back."""
    reason = error.code if isinstance(error, MotetError) else "internal_error"
    server.metrics.refused.labels(DOOR, reason).inc()
    known = error if isinstance(error, ClientError) else ClientError(reason, str(error))
    body = error_body(known, None)
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await websocket.send_json({"type": "error", "event_id": "event_refused", "error": body})
    await close(websocket, code, str(error))


async def close(websocket: WebSocket, code: int, reason: str) -> None:
    """Close, unless the client is gone; one that doesn't take the farewell is left."""
    if websocket.client_state is WebSocketState.DISCONNECTED:
        return
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
        async with asyncio.timeout(FLUSH_LIMIT_S):
            await websocket.close(code, reason.encode()[:120].decode(errors="ignore"))
