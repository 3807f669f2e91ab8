"""A pipeline whose versions differ by a tag, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from motet.components.errors import ComponentFailed
from motet.components.frames import Data, Fault, Frame, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.graph import Graph
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec


def graph(name: str = "t", *, sessions: dict[str, Any] | None = None, **options: Any) -> Graph:
    """Two nodes in a row; `options` are of the second, the first is always the same."""
    nodes = {
        "a": {"use": "versionfakes:Tag", "options": {"tag": "same"}},
        "b": {"use": "versionfakes:Tag", "options": options},
    }
    spec = {
        "name": name,
        "nodes": nodes,
        "edges": ["input -> a -> b -> output"],
        "sessions": sessions or {},
    }
    return build(PipelineSpec.model_validate(spec))


async def answer(session: Session, turn: int) -> list[tuple[str, int]]:
    """What a turn of one text says: tag and process of each node."""
    session.start(turn, TextInput("x"))
    async for number, _, frame in session:
        if number == turn and isinstance(frame, Data):
            return [tuple(one) for one in frame.value]
        if number == turn and isinstance(frame, Fault):
            raise ComponentFailed(frame.message)
    raise AssertionError("the session ended")


async def asked(pipeline: Pipeline, text: str = "x") -> str:
    """Which version of the second node answers a request."""
    found: list[Frame] = [frame async for frame in pipeline.ask(TextInput(text))]
    assert isinstance(found[0], Data)
    return found[0].value[-1][0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's doing
            await asyncio.sleep(0.005)
