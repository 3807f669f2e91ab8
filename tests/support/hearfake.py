"""A component that "hears" a file: it says how many bytes it was given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from motet.components.base import Component, Context
from motet.components.frames import (
    Completed,
    Frame,
    Likeliest,
    MediaFile,
    Prompt,
    Segment,
    TextDelta,
    Usage,
)


class Hear(Component):
    """One segment for every file."""

    accepts = (MediaFile,)
    emits = (Segment,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, MediaFile):
                yield Segment(f"heard {Path(frame.path).stat().st_size} bytes", 0, 1)


class Repeat(Component):
    """Says back what it was asked, with the number and the places of the pictures."""

    accepts = (Prompt,)
    emits = (TextDelta, Completed)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Prompt):
                for message in frame.messages:
                    top = (Likeliest((("x", -0.5), ("y", -1.5))),)
                    yield TextDelta(message.text, False, (("x", -0.5),), top)
                    for image in message.images:
                        told = f"<{len(image.data)} {image.detail} {image.at} {image.clip}>"
                        yield TextDelta(told)
                yield Completed(usage=Usage(7, 3, image_tokens=5))
