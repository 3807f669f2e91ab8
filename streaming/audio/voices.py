"""`/v1/audio/voices`: the voices that speech can be made with, as OpenAI's objects."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ...components.errors import BadInput, MotetError
from ..abilities import voices_of
from ..access.auth import Principal
from ..problems import errors
from ..server import Server, principal_of, server_of

router = APIRouter()
Json = dict[str, Any]
Ours = Annotated[Server, Depends(server_of)]
Asker = Annotated[Principal, Depends(principal_of)]


class UnknownVoice(MotetError):
    """There is no such voice."""

    code = "not_found"


@router.get("/v1/audio/voices")
async def listed(server: Ours, asker: Asker) -> Json:
    """The voices of every pipeline that speaks; `motet` names the pipelines of each."""
    data = list(known(server).values())
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": False,
    }


@router.get("/v1/audio/voices/{voice_id}", responses=errors(404))
async def one(server: Ours, asker: Asker, voice_id: str) -> Json:
    """A voice by its id, which is what `voice` takes.

    Raises:
        UnknownVoice: there is none of that id (404).
    """
    found = known(server)
    if voice_id not in found:
        has = ", ".join(found) or "none"
        raise UnknownVoice(f"no voice {voice_id!r:.60}; possible: {has}", where="voices")
    return found[voice_id]


@router.post("/v1/audio/voices", include_in_schema=False)
async def create(asker: Asker) -> Json:
    """Refused: no engine here makes voices of recordings or prompts."""
    raise BadInput(
        "voices aren't made here; a voice file is served as `model:` of tts/piper or tts/hibari",
        where="voices",
    )


def known(server: Server) -> dict[str, Json]:
    """All voices by id. When they were made isn't known: `created_at` is 0."""
    found: dict[str, Json] = {}
    for pipeline in server.pipelines.values():
        for name in voices_of(pipeline):
            facts = {"id": name, "object": "audio.voice", "name": name, "type": "audio_sample"}
            voice = found.setdefault(name, {**facts, "created_at": 0, "motet": {"pipelines": []}})
            voice["motet"]["pipelines"].append(pipeline.name)
    return found
