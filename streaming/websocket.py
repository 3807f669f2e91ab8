"""`/v1/realtime`: the WebSocket around the realtime protocol, and nothing of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from ..components.errors import MotetError, Overloaded
from ..pipelines.pipeline import Pipeline
from .access.admission import Admission, Ticket
from .access.callers import Caller, identify
from .access.secrets import router as secret_routes
from .converse import Observer, converse
from .offer import pipeline_for
from .operate.observe import log_content
from .realtime.driver import Driver
from .realtime.faults import ClientError, error_body
from .realtime.outgoing import FLUSH_LIMIT_S, Closed, Gone, Outgoing
from .server import Server
from .webrtc.calls import Call, Calls

DOOR = "realtime"


def router(
    server: Server, admission: Admission | None = None, calls: Calls | None = None
) -> APIRouter:
    """The WebSocket, and the routes that make ephemeral keys for it.

    `admission` is what other doors that hold sessions share with this one; None makes its own
    from the server's settings. `calls` are those that a second client may join.
    """
    settings, routes = server.settings, APIRouter()
    calls = Calls() if calls is None else calls
    admission = admission or Admission(settings.max_sessions, settings.max_sessions_per_key)
    routes.include_router(secret_routes)

    @routes.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket) -> None:  # pyright: ignore[reportUnusedFunction]
        offered: list[str] = websocket.scope.get("subprotocols") or []
        await websocket.accept(subprotocol="realtime" if "realtime" in offered else None)
        try:
            check_generation(websocket)
            caller = await identify(websocket, server)
            call_id = websocket.query_params.get("call_id")
            call = calls.of(call_id, caller.principal) if call_id is not None else None
            pipeline = pipeline_for(server, caller.model)
        except MotetError as error:
            await refuse(websocket, 1008, error, server)
            return
        if call is not None:
            await join(websocket, call, server)
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
    """Turn away what would wait for ever: clients of the beta, whose events had other names.

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


async def hold(
    websocket: WebSocket,
    server: Server,
    pipeline: Pipeline,
    caller: Caller,
    ticket: Ticket,
    said: Sequence[str | bytes] = (),
) -> None:
    """One session, from its first event until everything of it is gone, however it ends. `said` are
    messages that have been read already."""
    outgoing = Outgoing(witness=log_content if server.settings.log_content else None)

    def serve(driver: Driver, observer: Observer) -> Iterable[Coroutine[Any, Any, None]]:
        reading = read(websocket, driver.receive, observer.received, said)
        return reading, write(websocket, outgoing)

    with ticket, server.metrics.sessions.labels(pipeline.name, caller.door).track_inprogress():
        try:
            ended = await converse(server, pipeline, caller, outgoing, serve)
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


async def join(websocket: WebSocket, call: Call, server: Server) -> None:
    """A second client of a call: it sees the call's events and sends its own, and may leave."""
    ended: list[Closed] = []
    with call.joined() as outgoing:
        if outgoing is None:
            full = Overloaded("as many have joined this call as may")
            await refuse(websocket, 1013, full, server)
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(read(websocket, call.receive, call.received))
                group.create_task(write(websocket, outgoing))
                group.create_task(outgoing.ended())
        except* Closed as closed:
            ended = [error for error in closed.exceptions if isinstance(error, Closed)]
        except* Gone:
            ended = []
        finally:
            server.metrics.bytes.labels(DOOR, "out").inc(outgoing.sent_bytes)
    if ended:
        await close(websocket, ended[0].code, ended[0].reason)


async def read(
    websocket: WebSocket,
    receive: Callable[[str | bytes], Awaitable[None]],
    received: Callable[[int], None],
    said: Sequence[str | bytes] = (),
) -> None:
    """Client events to the protocol, first those `said` before. Raises `Gone` when the client hangs
    up."""
    for content in said:
        received(len(content))
        await receive(content)
    while True:
        content = await next_of(websocket)
        received(len(content))
        await receive(content)


async def next_of(websocket: WebSocket) -> str | bytes:
    """The client's next message. Raises `Gone` when it hangs up."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise Gone
    return message.get("text") or message.get("bytes") or ""


async def write(websocket: WebSocket, outgoing: Outgoing) -> None:
    """Server events to the client, as fast as it takes them. Raises `Closed` at the end, and
    `Gone` when the client hangs up."""
    try:
        while True:
            await websocket.send_text(await outgoing.take())
    except WebSocketDisconnect:
        raise Gone from None


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
