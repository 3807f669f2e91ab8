"""A component run by hand: frames in, all that it answers out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from motet.components.base import Component, Context
from motet.components.frames import Frame, TextDelta


async def stream(*frames: Frame) -> AsyncIterator[Frame]:
    for frame in frames:
        yield frame


async def ask(component: Component, *frames: Frame, context: Context | None = None) -> list[Frame]:
    run = component.run(stream(*frames), context or Context())
    async with aclosing(run) as answers:  # type: ignore[type-var]
        return [frame async for frame in answers]


def text_of(frames: list[Frame]) -> str:
    return "".join(frame.text for frame in frames if isinstance(frame, TextDelta))
