"""Ephemeral keys for browsers: a server makes one, a page connects with it, and it expires."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..components.errors import Overloaded
from .auth import Principal
from .events import SessionPatch, invalid
from .offer import offer_of, pipeline_for
from .realtime.beta import from_beta, to_beta
from .realtime.merge import merged
from .realtime.settings import Kind, Settings
from .server import Server, principal_of, server_of

KEY_PREFIX = "ek_"
MAX_SECRETS = 10_000
DEFAULT_LIFE_S = 600

Ours = Annotated[Server, Depends(server_of)]
Asker = Annotated[Principal, Depends(principal_of)]


@dataclass(frozen=True, slots=True)
class Secret:
    """What an ephemeral key stands for: who made it, and the session that it begins."""

    principal: Principal
    settings: Settings
    model: str | None
    expires_at: float


class SecretStore:
    """Ephemeral keys in memory, as hashes. A key can begin sessions until it expires."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._secrets: dict[str, Secret] = {}

    def make(
        self, principal: Principal, settings: Settings, model: str | None, life_s: float
    ) -> tuple[str, Secret]:
        """A new key, returned this once. Its priority is at most that of the request for it.

        Raises:
            Overloaded: too many keys are out.
        """
        now = self._clock()
        self._secrets = {k: s for k, s in self._secrets.items() if s.expires_at > now}
        if len(self._secrets) >= MAX_SECRETS:
            raise Overloaded(f"{MAX_SECRETS} ephemeral keys are out", retry_after_s=60)
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        bounded = replace(principal, max_priority=principal.priority, admin=False)
        secret = Secret(bounded, settings, model, now + life_s)
        self._secrets[_digest(key)] = secret
        return key, secret

    def find(self, key: str) -> Secret | None:
        """What the key stands for, None if it is unknown or has expired.

        Looked up by hash: which keys exist can't be learnt from the time that takes.
        """
        secret = self._secrets.get(_digest(key))
        return secret if secret is not None and secret.expires_at > self._clock() else None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Expiry(_Body):
    """When the key expires, counted from now."""

    anchor: Literal["created_at"] = "created_at"
    seconds: int = Field(default=DEFAULT_LIFE_S, ge=10, le=7200)


class SecretRequest(_Body):
    """What `POST /v1/realtime/client_secrets` takes."""

    expires_after: Expiry | None = None
    session: dict[str, Any] | None = None


def router(store: SecretStore) -> APIRouter:
    """The routes that make ephemeral keys, today's and the beta's."""
    routes = APIRouter(tags=["realtime"])

    @routes.post("/v1/realtime/client_secrets")
    async def client_secrets(body: SecretRequest, server: Ours, asker: Asker) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        life_s = (body.expires_after or Expiry()).seconds
        made = _make(store, server, asker, body.session or {}, "realtime", life_s)
        session = made.settings.wire(made.offer, made.session_id, made.expires_at)
        return {"value": made.key, "expires_at": made.expires_at, "session": session}

    @routes.post("/v1/realtime/sessions")
    async def sessions(body: dict[str, Any], server: Ours, asker: Asker) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return _beta(_make(store, server, asker, from_beta(body), "realtime", DEFAULT_LIFE_S))

    @routes.post("/v1/realtime/transcription_sessions")
    async def transcriptions(body: dict[str, Any], server: Ours, asker: Asker) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        session = from_beta(body) | {"type": "transcription"}
        return _beta(_make(store, server, asker, session, "transcription", DEFAULT_LIFE_S))

    return routes


@dataclass(frozen=True, slots=True)
class _Made:
    key: str
    settings: Settings
    offer: Any
    session_id: str
    expires_at: int


def _make(
    store: SecretStore,
    server: Server,
    asker: Principal,
    session: dict[str, Any],
    kind: Kind,
    life_s: float,
) -> _Made:
    """Check the session that the key will begin, and make the key.

    Raises:
        BadInput: a setting can't be.
    """
    try:
        patch = SessionPatch.model_validate(session)
    except ValidationError as error:
        raise invalid(error) from None
    model = session.get("model")
    model = model if isinstance(model, str) else None
    offer = offer_of(pipeline_for(server, model))
    settings = merged(Settings.initial(offer, patch.type or kind), patch, offer)
    key, secret = store.make(asker, settings, model, life_s)
    session_id = f"sess_{secrets.token_hex(10)}"
    return _Made(key, settings, offer, session_id, int(secret.expires_at))


def _beta(made: _Made) -> dict[str, Any]:
    """The beta's answer: the key lies in the session."""
    return {
        "id": made.session_id,
        "object": made.settings.wire(made.offer, made.session_id, made.expires_at)["object"],
        "expires_at": made.expires_at,
        **to_beta(made.settings, made.offer.model),
        "client_secret": {"value": made.key, "expires_at": made.expires_at},
    }
