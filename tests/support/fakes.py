"""Components that provoke what real ones do rarely: slowness, faults, floods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

from motet.components.base import Component, Context, Options
from motet.components.errors import BadInput
from motet.components.frames import Frame, TextInput, TurnSettings
from motet.streaming.bench.engines import Answer, Hear, Say

__all__ = ["Answer", "Echo", "Flood", "Hear", "Once", "Say", "Shout", "Tidy", "Tuned"]


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


class Broken(Options):
    """Whether it fails at whatever comes."""

    broken: bool = False


class Tuned(Component):
    """Answers a text with the silence it was set to wait for; "fail" raises, as all does if told
    `broken`."""

    accepts = (TextInput, TurnSettings)
    emits = (TextInput,)

    options = Broken

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        silence_ms = 500
        async for frame in frames:
            if isinstance(frame, TurnSettings):
                silence_ms = frame.silence_duration_ms
            elif isinstance(frame, TextInput) and frame.text != "fail":
                yield TextInput(str(silence_ms))
                continue
            if isinstance(frame, TextInput) or self.setup.options.get("broken"):
                raise RuntimeError("told to fail")


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


class Once(Component):
    """Passes one text on and has done its work."""

    accepts = (TextInput,)
    emits = (TextInput,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        yield await anext(frames)


class Shout(Component):
    """Passes texts on in capitals."""

    accepts = (TextInput,)
    emits = (TextInput,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            yield TextInput(frame.text.upper()) if isinstance(frame, TextInput) else frame


class Tidy(Component):
    """Never answers, and takes several steps to clean up."""

    accepts = (TextInput,)
    emits = (TextInput,)
    tidied: ClassVar[int] = 0

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        try:
            async for frame in frames:
                await asyncio.sleep(3600)
                yield frame
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            Tidy.tidied += 1
