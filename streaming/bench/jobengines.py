"""Engines of jobs that cost nothing or take their time, for `motet bench jobs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...components.base import Component, Context
from ...components.frames import Data, Frame, TextDelta, TextInput


class Nothing(Component):
    """Answers data with itself."""

    accepts = (Data,)
    emits = (Data,)
    concurrency = 256

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """The same frames."""
        async for frame in frames:
            yield frame


class Lasting(Component):
    """Works on a text until it is stopped."""

    accepts = (TextInput,)
    emits = (TextDelta,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """A word at first, then nothing more."""
        async for _ in frames:
            yield TextDelta("begun")
            await asyncio.Event().wait()
