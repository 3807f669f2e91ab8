"""`/v1/embeddings`: OpenAI's embeddings on any pipeline that embeds texts."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..components.frames import Embedding, Frame, TextInput
from .access.auth import Principal
from .described import answers
from .hangup import while_connected
from .needs import EMBEDDING
from .server import Server, principal_of, server_of

router = APIRouter()
MAX_INPUTS = 2048
Inputs = str | list[str] | list[int] | list[list[int]]


class EmbeddingRequest(BaseModel):
    """The parameters of OpenAI's route; `truncate` is ours: cut what is too long, not refuse it."""

    model_config = ConfigDict(extra="forbid")

    input: Inputs
    model: str | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None
    truncate: bool | None = None

    @model_validator(mode="after")
    def bounded(self) -> EmbeddingRequest:
        """Refuse nothing, too much, and empty texts."""
        items = self.items()
        if not 1 <= len(items) <= MAX_INPUTS:
            raise ValueError(f"input holds {len(items)} texts; 1 to {MAX_INPUTS} are possible")
        if not all(items):
            raise ValueError("an input is empty")
        return self

    def items(self) -> Sequence[str | list[int]]:
        """The inputs one by one: texts, or tokens of the model's own vocabulary."""
        given = self.input
        if isinstance(given, str):
            return [given]
        if given and isinstance(given[0], int):
            return [[token for token in given if isinstance(token, int)]]
        return [item for item in given if not isinstance(item, int)]

    def frames(self) -> list[TextInput]:
        """The request as frames."""
        shared = {"dimensions": self.dimensions, "truncate": self.truncate}
        options = {name: value for name, value in shared.items() if value is not None}
        return [
            TextInput(item, index, options)
            if isinstance(item, str)
            else TextInput("", index, options | {"tokens": item})
            for index, item in enumerate(self.items())
        ]


@router.post("/v1/embeddings", response_model=None, responses={200: answers("application/json")})
async def embed(
    request: Request,
    body: EmbeddingRequest,
    server: Annotated[Server, Depends(server_of)],
    asker: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """Embed texts; the vectors come in the order of the input. Hanging up stops the work."""
    pipeline = server.find(body.model, EMBEDDING)
    run = pipeline.ask(*body.frames(), key=asker.name, priority=asker.priority)
    found = await while_connected(request, gathered(run))
    tokens = sum(one.tokens for one in found)
    data = [as_item(one, body.encoding_format) for one in found]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": pipeline.name, "usage": usage}
    return JSONResponse(answer)


async def gathered(run: AsyncGenerator[Frame]) -> list[Embedding]:
    """The vectors, in order."""
    async with aclosing(run) as frames:
        found = [one async for one in frames if isinstance(one, Embedding)]
    return sorted(found, key=lambda one: one.index)


def as_item(embedding: Embedding, encoding: Literal["float", "base64"]) -> dict[str, Any]:
    """One vector as OpenAI writes it; base64 is of little-endian float32."""
    vector = np.ascontiguousarray(embedding.vector, "<f4")
    value: Any = vector.tolist()
    if encoding == "base64":
        value = base64.b64encode(vector.tobytes()).decode()
    return {"object": "embedding", "index": embedding.index, "embedding": value}
