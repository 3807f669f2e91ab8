"""Components that provoke what real ones do rarely: slowness, faults, floods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

import numpy as np

from motet.components.base import Component, Context, Options
from motet.components.errors import BadInput
from motet.components.frames import (
    Audio,
    Completed,
    Fault,
    Frame,
    Prompt,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
    TextInput,
    Transcript,
    Voice,
)


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


class HearOptions(Options):
    """What the fake recogniser says it heard."""

    text: str = "hello there"


class Hear(Component):
    """A recogniser that hears the same in every utterance, at once."""

    accepts = (Audio, SpeechStarted, SpeechStopped)
    emits = (Transcript, Fault)
    options = HearOptions
    concurrency = 256

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        text = HearOptions.model_validate(self.setup.options).text
        async for frame in frames:
            if isinstance(frame, SpeechStopped) and not frame.dropped:
                yield Transcript(text, final=True, utterance=frame.utterance)


class AnswerOptions(Options):
    """What the fake model says, and how long it takes."""

    text: str = "Sure, here is a short answer. It has two sentences."
    delay_s: float = 0.0
    fail: bool = False


class Answer(Component):
    """A language model that says the same to everything, word by word."""

    accepts = (Prompt,)
    emits = (TextDelta, Completed)
    options = AnswerOptions
    concurrency = 256

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        options = AnswerOptions.model_validate(self.setup.options)
        async for frame in frames:
            if not isinstance(frame, Prompt):
                continue
            if options.fail:
                raise RuntimeError("the model is gone")
            await asyncio.sleep(options.delay_s)
            for word in options.text.split(" "):
                yield TextDelta(word + " ", spoken=frame.spoken)
            yield Completed()


class Say(Component):
    """A voice that makes 800 ms of quiet noise for every sentence, at once."""

    accepts = (TextDelta, Voice)
    emits = (Spoken, Audio)
    concurrency = 256

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        chunk = np.full(480, 100, np.int16)
        text, at_ms = "", 0.0
        async for frame in frames:
            if not (isinstance(frame, TextDelta) and frame.spoken):
                continue
            text += frame.text
            if not text.rstrip().endswith("."):
                continue
            yield Spoken(text, at_ms, at_ms + 800)
            for index in range(40):
                yield Audio(chunk, 24_000, at_ms + index * 20)
            text, at_ms = "", at_ms + 800
