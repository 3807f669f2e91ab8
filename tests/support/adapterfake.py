"""A language model that says which adapter it was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from motet.components.base import Component, Context, Options
from motet.components.frames import Completed, Frame, Prompt, TextDelta


class AdaptedOptions(Options):
    """The adapters that it has."""

    adapters: Mapping[str, str] = {}


class Adapted(Component):
    """Answers with the prompt's adapter."""

    accepts = (Prompt,)
    emits = (TextDelta, Completed)
    options = AdaptedOptions

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Prompt):
                yield TextDelta(str(frame.adapter))
                yield Completed()
