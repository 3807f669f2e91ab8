"""A component that says which version of it answered, and counts how often it was loaded."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import ClassVar

from motet.components.base import Component, Context, Options
from motet.components.errors import BadInput, MissingRequirement
from motet.components.frames import Data, Frame, TextInput


class TagOptions(Options):
    """Its name in the answers, and what goes wrong."""

    tag: str = "old"
    fails: bool = False
    no_weights: bool = False
    slow_load: bool = False


class Tag(Component):
    """Adds its tag and process to what passes; "hold" isn't answered, "bad" is the caller's."""

    accepts = (TextInput, Data)
    emits = (Data,)
    options = TagOptions
    concurrency = 64
    loads: ClassVar[Counter[str]] = Counter()
    closes: ClassVar[Counter[str]] = Counter()
    slow: ClassVar[int] = 0

    @property
    def told(self) -> TagOptions:
        return TagOptions.model_validate(dict(self.setup.options))

    async def load(self) -> None:
        if self.told.slow_load:
            Tag.slow += 1
            await asyncio.sleep(3600)
        if self.told.no_weights:
            raise MissingRequirement("the weights are not there", where=self.setup.node)
        Tag.loads[f"{self.setup.node} {self.told.tag}"] += 1

    async def close(self) -> None:
        Tag.closes[f"{self.setup.node} {self.told.tag}"] += 1

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if frame == TextInput("hold"):
                await asyncio.sleep(3600)
            if frame == TextInput("bad"):
                raise BadInput("told to be bad", where=self.setup.node)
            if self.told.fails:
                raise RuntimeError("told to fail")
            before = frame.value if isinstance(frame, Data) else []
            yield Data([*before, (self.told.tag, os.getpid())])
