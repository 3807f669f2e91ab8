"""Engines that cost nothing, for `motet bench`: what is left is the server's own work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import ClassVar

import numpy as np

from ...components.base import Component, Context, Options
from ...components.frames import (
    Audio,
    Completed,
    Fault,
    Frame,
    Prompt,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TextDelta,
    Transcript,
    Voice,
)


class HearOptions(Options):
    """What the fake recogniser says it heard."""

    text: str = "hello there"


class Hear(Component):
    """A recogniser that hears the same in every utterance, at once."""

    accepts = (Audio, SpeechStarted, SpeechPaused, SpeechStopped)
    emits = (Transcript, Fault)
    options = HearOptions
    concurrency = 1024
    probe: ClassVar[Callable[[str, float, float], None] | None] = None
    """Told of each chunk that arrives: session, its end and the utterance's start in ms."""

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        text = HearOptions.model_validate(self.setup.options).text
        started_ms = 0.0
        async for frame in frames:
            if isinstance(frame, Audio):
                if Hear.probe is not None:
                    Hear.probe(context.session_id, frame.end_ms, started_ms)
            elif isinstance(frame, SpeechStarted):
                started_ms = frame.start_ms
            elif isinstance(frame, SpeechStopped) and not frame.dropped:
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
    concurrency = 1024

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
    concurrency = 1024

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
