"""Components that tests of jobs run: nothing at once, chunks slowly, failures by command."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from PIL import Image as pictures

from motet.components.base import Component, Context, Options
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import (
    Data,
    Frame,
    Generate,
    Image,
    MediaFile,
    Progress,
    VideoClip,
)


class Nothing(Component):
    """Answers data with itself."""

    accepts = (Data,)
    emits = (Data,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            yield frame


class SlowOptions(Options):
    """`log` is a file that gets a line for every chunk made; `step_s` is how long one takes."""

    log: str | None = None
    step_s: float = 0.1


class Slow(Component):
    """Makes as many chunks of a file as its text says, unless it says "bad" or "broken"."""

    accepts = (MediaFile, Data)
    emits = (Data, Progress)
    options = SlowOptions

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        options = SlowOptions.model_validate(dict(self.setup.options))
        file, known = None, set()
        async for frame in frames:
            if isinstance(frame, MediaFile):
                file = frame
            elif isinstance(frame, Data):
                known.add(frame.value["key"])
        assert file is not None
        text = Path(file.path).read_text()
        if "bad" in text:
            raise BadInput("this file is no good")
        if "broken" in text:
            raise ComponentFailed("the engine broke")
        count = int(text)
        for number in range(count):
            key = f"0:{number * 16_000}:16000"
            if key not in known:
                await asyncio.sleep(options.step_s)
                if options.log:
                    note(options.log, f"{context.trace} {key}\n")
                yield Data({"kind": "chunk", "key": key, "text": f"chunk {number}"})
            yield Progress(number + 1, count)
        words = " ".join(f"chunk {number}" for number in range(count))
        yield Data(
            {
                "kind": "transcript",
                "text": words,
                "language": "en",
                "task": "transcribe",
                "segments": [],
                "duration": count,
            }
        )


class Paint(Component):
    """Makes pictures of one colour: red is the length of the prompt, green the seed, blue that of
    the picture that came along. "slow" takes half a minute, "broken" breaks after the first."""

    accepts = (Generate,)
    emits = (Image, Progress)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Generate):
                async for made in self.paint(frame):
                    yield made

    async def paint(self, asked: Generate) -> AsyncIterator[Frame]:
        blue = 0
        if asked.image is not None:
            blue = pictures.open(io.BytesIO(asked.image)).convert("RGB").getpixel((0, 0))[2]
        shape = (asked.height or 8, asked.width or 8, 3)
        for index in range(asked.count):
            colour = (len(asked.prompt), (asked.seed or 0) + index, blue)
            yield Image(np.full(shape, colour, np.uint8), index, meta={"seed": asked.seed})
            yield Progress(index + 1, asked.count)
            if "broken" in asked.prompt:
                raise BadInput("the paint is out")
            if "slow" in asked.prompt:
                await asyncio.sleep(30)


class Film(Component):
    """Makes clips of black frames; "broken" breaks, "slow" shows a red frame and takes a minute."""

    accepts = (Generate,)
    emits = (VideoClip, Image, Progress)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Generate):
                if "broken" in frame.prompt:
                    raise BadInput("the film is torn")
                if "slow" in frame.prompt:
                    red = np.full((8, 8, 3), (250, 0, 0), np.uint8)
                    yield Image(red, 0, True, {"preview": 0})
                    await asyncio.sleep(60)
                shape = (frame.frames or 6, frame.height or 32, frame.width or 32, 3)
                yield VideoClip(np.zeros(shape, np.uint8), frame.fps or 6, meta={"seed": 3})


def note(path: str, line: str) -> None:
    """Add a line to a file."""
    with open(path, "a") as notes:
        notes.write(line)
