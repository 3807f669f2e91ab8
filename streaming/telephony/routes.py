"""`/v1/telephony/{carrier}` and `/telephony/twilio`: the doors that carriers knock at.

Twilio proves itself by the signature of its requests, where `TWILIO_AUTH_TOKEN` is set; a server
that needs keys needs that to be called by Twilio, whose stream URLs can't hold one. The other
carriers need an API key like everybody: as `?key=` in the stream's URL, as the password of HTTP
Basic, or as a header.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request, Response, WebSocket
from starlette.requests import HTTPConnection

from ...components.errors import BadInput, MotetError, Overloaded
from ..access.admission import Admission
from ..access.auth import Principal
from ..access.callers import Caller
from ..described import answers
from ..realtime.driver import Conversing
from ..realtime.outgoing import Gone
from ..realtime.protocol import RealtimeProtocol
from ..server import Forbidden, Server, server_of
from ..websocket import close, hold
from .dialects import Dialect, dialect
from .opening import named, opening
from .protocol import CallProtocol
from .twilio import SIGNATURE_HEADER, TOKEN_VARIABLE, answer, is_secure, is_signed, public_urls

DOOR = "telephony"


def router(
    server: Server, admission: Admission | None = None, *, twilio_token: str | None = None
) -> APIRouter:
    """The routes; `twilio_token` None takes it from the environment."""
    settings, routes = server.settings, APIRouter()
    admission = admission or Admission(settings.max_sessions, settings.max_sessions_per_key)
    token = os.environ.get(TOKEN_VARIABLE, "") if twilio_token is None else twilio_token

    @routes.websocket("/v1/telephony/{carrier}")
    async def call(websocket: WebSocket, carrier: str) -> None:  # pyright: ignore[reportUnusedFunction]
        await websocket.accept()
        try:
            spoken = dialect(carrier)
            principal = identify(websocket, (), server, token if carrier == "twilio" else "")
            pipeline = named(server, websocket.query_params.get("model"))
        except MotetError as error:
            await turn_away(websocket, 1008, error, server)
            return
        ticket = admission.try_enter(principal.name, principal.max_sessions)
        if ticket is None:
            await turn_away(websocket, 1013, Overloaded("all sessions are taken"), server)
            return
        with ticket:
            try:
                said, model = await opening(websocket, spoken)
                pipeline = named(server, model) if model else pipeline
            except MotetError as error:
                await turn_away(websocket, 1008, error, server)
                return
            except Gone:
                return
            caller = Caller(principal, pipeline.name, door=DOOR, wrap=wrapping(spoken))
            await hold(websocket, server, pipeline, caller, ticket, said)

    @routes.post(
        "/telephony/twilio",
        response_class=Response,
        openapi_extra={"requestBody": {"content": {"application/x-www-form-urlencoded": {}}}},
        responses={200: answers("text/xml")},
    )
    async def answer_twilio(  # pyright: ignore[reportUnusedFunction]
        request: Request, ours: Annotated[Server, Depends(server_of)]
    ) -> Response:
        """TwiML for an incoming call. The query becomes the stream's parameters: `model` is the
        pipeline that takes the call, `voice`, `instructions` and `opening` are the session's."""
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise BadInput("Twilio's requests are application/x-www-form-urlencoded", where=DOOR)
        form = await request.form()
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        identify(request, fields, ours, token)
        if "model" in request.query_params:
            named(ours, request.query_params["model"])
        parameters = {k: v for k, v in request.query_params.items() if k != "key"}
        text = answer(stream_url(request), parameters)
        return Response(text, media_type="text/xml")

    return routes


def wrapping(spoken: Dialect) -> Callable[[RealtimeProtocol], Conversing]:
    """Puts a carrier's dialect around a realtime protocol."""

    def wrap(inner: RealtimeProtocol) -> Conversing:
        return CallProtocol(spoken, inner)

    return wrap


def identify(
    connection: HTTPConnection, fields: Iterable[tuple[str, str]], server: Server, token: str
) -> Principal:
    """Who calls: Twilio by its signature, where there is a token to check it; else by an API key.

    Raises:
        Forbidden: the signature is missing or wrong.
        Unauthorized: a key is needed, and this is none or unknown.
    """
    headers = connection.headers
    if token:
        urls = public_urls(str(connection.url), headers)
        if not is_signed(headers.get(SIGNATURE_HEADER), urls, fields, token):
            raise Forbidden("the request isn't signed by Twilio's auth token", where=DOOR)
        return Principal("twilio")
    key = connection.query_params.get("key") or basic_password(headers)
    return server.authenticate(headers, key)


def basic_password(headers: Mapping[str, str]) -> str | None:
    """The password of HTTP Basic authorization, None without one."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user_and_password = base64.b64decode(text.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return user_and_password.partition(":")[2] or None


def stream_url(request: Request) -> str:
    """Our WebSocket's URL as the carrier can reach it, by the way its request came."""
    host = request.headers.get("x-forwarded-host") or request.headers.get("host", "")
    scheme = "wss" if is_secure(urlsplit(str(request.url)).scheme, request.headers) else "ws"
    return f"{scheme}://{host}/v1/telephony/twilio"


async def turn_away(websocket: WebSocket, code: int, error: MotetError, server: Server) -> None:
    """Close with the reason; carriers read no error messages."""
    server.metrics.refused.labels(DOOR, error.code).inc()
    await close(websocket, code, str(error))
