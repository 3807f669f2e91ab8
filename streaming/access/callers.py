"""Who opens a conversation, at whichever door, and on what terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from ..realtime.driver import Conversing
from ..realtime.events import SessionPatch
from ..realtime.protocol import RealtimeProtocol
from ..server import Forbidden, Server
from .auth import EPHEMERAL_PREFIX, PRIORITY_HEADER, Principal, bearer
from .origin import origin_allowed
from .secrets import secret_of

KEY_PROTOCOL = "openai-insecure-api-key."


@dataclass(frozen=True, slots=True)
class Caller:
    """Who connects, on what terms: an ephemeral key brings wishes to begin with.

    `wrap` puts the dialect of another door around the protocol.
    """

    principal: Principal
    model: str | None
    wishes: tuple[SessionPatch, ...] = ()
    timings: bool = False
    transcription: bool = False
    door: str = "realtime"
    wrap: Callable[[RealtimeProtocol], Conversing] | None = None


async def identify(connection: HTTPConnection, server: Server) -> Caller:
    """Who connects, by header, by subprotocol (browsers can't set headers), or ephemeral key.

    Raises:
        Unauthorized: a key is needed and this is none, or one that has expired.
        Forbidden: a page of a foreign origin asks.
    """
    query = connection.query_params
    offered: list[str] = connection.scope.get("subprotocols") or []
    keys = (name.removeprefix(KEY_PROTOCOL) for name in offered if name.startswith(KEY_PROTOCOL))
    key = next(keys, None) or bearer(connection.headers)
    timings, transcribes = query.get("timings") == "1", query.get("intent") == "transcription"
    if key is None or not key.startswith(EPHEMERAL_PREFIX):
        principal = server.authenticate(connection.headers, key)
        return Caller(principal, query.get("model"), (), timings, transcribes)
    if not origin_allowed(connection.headers, server.settings):
        raise Forbidden("this page may not connect; see --allow-origins", where="origin")
    secret = await secret_of(server, key)
    principal = secret.principal.asking(connection.headers.get(PRIORITY_HEADER))
    model = query.get("model") or secret.model
    return Caller(principal, model, (secret.wish,), timings, secret.kind == "transcription")
