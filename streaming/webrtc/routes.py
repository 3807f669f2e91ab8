"""`/v1/realtime/calls`: where browsers begin a call, by an SDP offer, and end it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.types import Message

from ...components.errors import BadInput, MissingRequirement, MotetError, Overloaded
from ..access.admission import Admission
from ..access.callers import Caller, identify
from ..described import answers, as_text, body
from ..fetch import TooLarge
from ..offer import pipeline_for
from ..problems import errors, problem
from ..realtime.events import SessionPatch, invalid
from ..realtime.faults import ClientError
from ..server import Principal, Server, principal_of
from .calls import Calls
from .ice import ice_servers

DOOR = "webrtc"
MAX_BODY_BYTES = 1 << 20
"""The offer, and a session with its instructions and tools."""

_FORM = {
    "type": "object",
    "properties": {"sdp": {"type": "string"}, "session": as_text(SessionPatch)},
    "required": ["sdp"],
}

Asker = Annotated[Principal, Depends(principal_of)]


def router(server: Server, admission: Admission, calls: Calls) -> APIRouter:
    """The routes; `calls` owns what they begin.

    Raises:
        SpecError: the settings name servers for ICE that can't be used.
    """
    ice_servers(server.settings.ice_servers)
    routes = APIRouter(tags=["realtime"])

    @routes.post(
        "/v1/realtime/calls",
        status_code=201,
        response_class=Response,
        openapi_extra=body(form=_FORM, sdp=True),
        responses={201: answers("application/sdp"), **errors(413)},
    )
    async def create(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Begin a call: an offer as `application/sdp`, or a form of `sdp` and `session`."""
        try:
            call_id, answer = await _begin(request, server, admission, calls)
        except MotetError as error:
            server.metrics.refused.labels(DOOR, error.code).inc()
            raise
        where = {"Location": f"/v1/realtime/calls/{call_id}"}
        return Response(answer, 201, where, media_type="application/sdp")

    @routes.post(
        "/v1/realtime/calls/{call_id}/hangup", response_class=Response, responses=errors(404)
    )
    async def hang_up(call_id: str, asker: Asker) -> Response:  # pyright: ignore[reportUnusedFunction]
        """End a call, by the key that made it."""
        try:
            calls.of(call_id, asker).hang_up()
        except ClientError as error:
            return problem(404, error.message, error.reason, param=error.param)
        return Response()

    return routes


async def _begin(
    request: Request, server: Server, admission: Admission, calls: Calls
) -> tuple[str, str]:
    """The id of the call, and the answer to its offer."""
    caller = await identify(request, server)
    offer, session = await _asked(request)
    caller = _wishing(caller, session)
    pipeline = pipeline_for(server, caller.model)
    try:
        from .call import Call
    except ImportError as error:
        raise MissingRequirement(
            f"WebRTC needs {error.name}: pip install 'motet[webrtc]'", where=DOOR
        ) from error
    ticket = admission.try_enter(caller.principal.name, caller.principal.max_sessions)
    if ticket is None:
        raise Overloaded("all sessions are taken; try again later", retry_after_s=5)
    call = Call(server, pipeline, caller, ticket)
    calls.begin(call, call.run(offer))
    return call.id, await asyncio.shield(call.answered)


def _wishing(caller: Caller, session: dict[str, Any] | None) -> Caller:
    """The caller with what its form wishes, on top of what its key does.

    Raises:
        BadInput: a setting can't be.
    """
    if session is None:
        return caller
    try:
        wish = SessionPatch.model_validate(session)
    except ValidationError as error:
        raise invalid(error) from None
    model = session.get("model")
    return replace(
        caller,
        model=caller.model or (model if isinstance(model, str) else None),
        wishes=(*caller.wishes, wish),
    )


async def _asked(request: Request) -> tuple[str, dict[str, Any] | None]:
    """The offer, and the session of a form.

    Raises:
        BadInput: it is neither of the two shapes, or broken.
        TooLarge: it is too large.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/sdp", "multipart/form-data"):
        raise BadInput(
            f"a body of type {kind!r:.80}; possible: application/sdp, multipart/form-data",
            where="content-type",
        )
    body = await _body(request)
    if kind == "application/sdp":
        return _text(body, "sdp"), None
    fields = await _form(request, body)
    if "sdp" not in fields:
        raise BadInput("the form has no field 'sdp'", where="sdp", param="sdp")
    return fields["sdp"], _session(fields.get("session"))


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(f"more than {MAX_BODY_BYTES} bytes", where="body")
    return bytes(body)


async def _form(request: Request, body: bytes) -> dict[str, str]:
    """The fields of a form that is read already; a file counts as its content."""

    async def replay() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    fields: dict[str, str] = {}
    parsed = Request(request.scope, replay).form(
        max_files=4, max_fields=16, max_part_size=MAX_BODY_BYTES
    )
    async with parsed as form:
        for name, value in form.multi_items():
            whole = await value.read() if isinstance(value, UploadFile) else None
            fields[name] = value if isinstance(value, str) else _text(whole or b"", name)
    return fields


def _session(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        session = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("isn't JSON", where="session", param="session") from None
    if not isinstance(session, dict):
        raise BadInput("isn't a JSON object", where="session", param="session")
    return cast(dict[str, Any], session)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadInput("isn't UTF-8", where=name, param=name) from None
