"""Ephemeral keys for browsers: a server makes one, a page connects with it, and it expires."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..offer import offer_of, pipeline_for
from ..realtime.beta import from_beta, to_beta
from ..realtime.events import SessionPatch, invalid
from ..realtime.merge import merged
from ..realtime.settings import Kind, Offer, Settings
from ..server import Server, principal_of, server_of
from .auth import Principal
from .ephemeral import Sealed

router = APIRouter(tags=["realtime"])
DEFAULT_LIFE_S = 600

Ours = Annotated[Server, Depends(server_of)]
Asker = Annotated[Principal, Depends(principal_of)]


@dataclass(frozen=True, slots=True)
class Secret:
    """What an ephemeral key stands for now: whose it is, and the session that it begins."""

    principal: Principal
    model: str | None
    kind: Kind
    wish: SessionPatch


async def secret_of(server: Server, key: str) -> Secret:
    """Look at an ephemeral key. Its limits are those that the API key that made it has now, its
    priority at most that of the request for it.

    Raises:
        Unauthorized: it has expired, isn't this server's, or the API key that made it is gone.
        RateLimited: that key has made its requests for now.
    """
    sealed = await server.ephemeral.read(key)
    maker = server.keys.again(sealed.maker)
    most = sealed.priority
    if maker.max_priority is not None:
        most = min(most, maker.max_priority)
    principal = replace(maker, priority=most, max_priority=most)
    server.rates.take(principal.name, principal.requests_per_minute, time.monotonic())
    wish = SessionPatch.model_validate(sealed.session)
    return Secret(principal, sealed.model, sealed.kind, wish)


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


@router.post("/v1/realtime/client_secrets")
async def client_secrets(body: SecretRequest, server: Ours, asker: Asker) -> dict[str, Any]:
    """A key for a browser, and the session that it begins."""
    life_s = (body.expires_after or Expiry()).seconds
    made = await _make(server, asker, body.session or {}, "realtime", life_s)
    session = made.settings.wire(made.offer, made.session_id, made.expires_at)
    return {"value": made.key, "expires_at": made.expires_at, "session": session}


@router.post("/v1/realtime/sessions")
async def sessions(body: dict[str, Any], server: Ours, asker: Asker) -> dict[str, Any]:
    """The same as the beta asked for it."""
    return _beta(await _make(server, asker, from_beta(body), "realtime", DEFAULT_LIFE_S))


@router.post("/v1/realtime/transcription_sessions")
async def transcriptions(body: dict[str, Any], server: Ours, asker: Asker) -> dict[str, Any]:
    """The beta's keys for sessions that only transcribe."""
    session = from_beta(body) | {"type": "transcription"}
    return _beta(await _make(server, asker, session, "transcription", DEFAULT_LIFE_S))


@dataclass(frozen=True, slots=True)
class _Made:
    key: str
    settings: Settings
    offer: Offer
    session_id: str
    expires_at: int


async def _make(
    server: Server, asker: Principal, session: dict[str, Any], kind: Kind, life_s: float
) -> _Made:
    """Check the session that the key will begin, and make the key.

    Raises:
        BadInput: a setting can't be, or all of them are too long for a key.
    """
    try:
        patch = SessionPatch.model_validate(session)
    except ValidationError as error:
        raise invalid(error) from None
    model = session.get("model")
    model = model if isinstance(model, str) else None
    offer = offer_of(pipeline_for(server, model))
    settings = merged(Settings.initial(offer, patch.type or kind), patch, offer)
    sealed = Sealed(
        maker=asker.key_id,
        priority=asker.priority,
        model=model,
        kind=settings.kind,
        session=patch.model_dump(mode="json", exclude_unset=True),
        expires_at=int(time.time() + life_s),
    )
    key = await server.ephemeral.make(sealed)
    return _Made(key, settings, offer, f"sess_{secrets.token_hex(10)}", sealed.expires_at)


def _beta(made: _Made) -> dict[str, Any]:
    """The beta's answer: the key lies in the session."""
    return {
        "id": made.session_id,
        "object": made.settings.wire(made.offer, made.session_id, made.expires_at)["object"],
        "expires_at": made.expires_at,
        **to_beta(made.settings, made.offer.model),
        "client_secret": {"value": made.key, "expires_at": made.expires_at},
    }
