"""Components that provoke what real ones do rarely: slowness, faults, floods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

from motet.components.base import Component, Context
from motet.components.errors import BadInput
from motet.components.frames import Frame, TextInput
from motet.streaming.bench.engines import Answer, Hear, Say

__all__ = ["Answer", "Echo", "Flood", "Hear", "Say"]


class Echo(Component):
    """Yields what it gets; "fail" raises, "sleep" never answers, "bad" is the caller's fault."""

    accepts = (TextInput,)
    emits = (TextInput,)
    running: ClassVar[int] = 0

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        Echo.running += 1
        try:
            async for frame in frames:
                if isinstance(frame, TextInput):
                    if frame.text == "fail":
                        raise RuntimeError("told to fail")
                    if frame.text == "bad":
                        raise BadInput("told to be bad", where=self.setup.node)
                    if frame.text == "sleep":
                        await asyncio.sleep(3600)
                yield frame
        finally:
            Echo.running -= 1


class Flood(Component):
    """Answers each text with 10,000 frames."""

    accepts = (TextInput,)
    emits = (TextInput,)
    made: ClassVar[int] = 0

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for _ in frames:
            for index in range(10_000):
                Flood.made += 1
                yield TextInput("flood", index)
