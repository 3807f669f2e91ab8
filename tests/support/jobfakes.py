"""Components that tests of jobs run: nothing at once, chunks slowly, failures by command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from motet.components.base import Component, Context, Options
from motet.components.errors import BadInput, ComponentFailed
from motet.components.frames import Data, Frame, MediaFile, Progress


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


def note(path: str, line: str) -> None:
    """Add a line to a file."""
    with open(path, "a") as notes:
        notes.write(line)
