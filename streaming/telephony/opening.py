"""The begin of a carrier's stream, which may name the pipeline that takes the call."""

from __future__ import annotations

import asyncio

from fastapi import WebSocket

from ...components.errors import BadInput, nearest
from ...pipelines.pipeline import Pipeline
from ..offer import pipeline_for
from ..realtime.decode import decode
from ..server import Server
from ..websocket import next_of
from .dialects import Dialect, Started

START_S = 10.0
MOST_BEFORE = 8
"""Messages that ask for nothing, as "connected", before the start."""


async def opening(websocket: WebSocket, spoken: Dialect) -> tuple[list[str | bytes], str | None]:
    """What the carrier says up to its start, and the model that the start's parameters name.

    Raises:
        BadInput: there is no start within `START_S`, or one that can't be understood.
        Gone: it hangs up.
    """
    said: list[str | bytes] = []
    try:
        async with asyncio.timeout(START_S):
            while len(said) < MOST_BEFORE:
                said.append(await next_of(websocket))
                begun = spoken.parse(decode(said[-1]))
                if begun is not None:
                    return said, begun.parameters.get("model") if isinstance(
                        begun, Started
                    ) else None
    except TimeoutError:
        pass
    raise BadInput(f"no start within {START_S:g} s", where=spoken.name)


def named(server: Server, model: str | None) -> Pipeline:
    """The pipeline for a call: that of the name, or the best where none is named. Who sets up a
    telephone number means the name, unlike clients that come with OpenAI's.

    Raises:
        BadInput: there is no such pipeline, or it holds no conversations.
    """
    if model and model not in server.pipelines:
        known = nearest(model, list(server.pipelines))
        raise BadInput(f"no pipeline {model!r:.80}; {known}", where="telephony", param="model")
    return pipeline_for(server, model)
