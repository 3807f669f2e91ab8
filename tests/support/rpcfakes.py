"""Components behind the typed services: they answer what a test can compute itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np

from motet.components.base import Component, Context
from motet.components.errors import Overloaded, ReplicaGone
from motet.components.frames import (
    Audio,
    Completed,
    Control,
    Embedding,
    Frame,
    Generate,
    Image,
    Progress,
    Prompt,
    Spoken,
    TextDelta,
    TextInput,
    Transcript,
    TranscriptionSettings,
    Usage,
    Voice,
)


class Ears(Component):
    """Hears an utterance in each second: "N samples, peak P, language L"; the rest at the end."""

    accepts = (Audio, Control)
    emits = (Transcript,)

    def languages(self) -> list[str]:
        return ["de", "en"]

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        settings, heard, number = TranscriptionSettings(), np.empty(0, np.int16), 0
        async for frame in frames:
            if isinstance(frame, TranscriptionSettings):
                settings = frame
            if not isinstance(frame, Audio):
                continue
            if not len(heard) and settings.partials:
                yield Transcript("well", final=False, utterance=number + 1)
            heard = np.concatenate((heard, frame.pcm))
            if len(heard) >= frame.rate_hz:
                number += 1
                yield told(heard, number, settings)
                heard = heard[:0]
        if len(heard):
            yield told(heard, number + 1, settings)


def told(heard: np.ndarray, number: int, settings: TranscriptionSettings) -> Transcript:
    text = f"{len(heard)} samples, peak {np.abs(heard).max()}, language {settings.language}"
    return Transcript(text, True, number, language=settings.language or "en", logprob=-0.5)


class Mouth(Component):
    """Speaks 100 ms at 24 kHz for each letter of a text; the level is 1000 times the speed."""

    accepts = (TextDelta, Voice)
    emits = (Spoken, Audio)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        voice, at_ms = Voice(), 0.0
        async for frame in frames:
            if isinstance(frame, Voice):
                voice = frame
            elif isinstance(frame, TextDelta):
                for _ in frame.text:
                    level = int(1000 * voice.speed)
                    yield Audio(np.full(2400, level, np.int16), 24_000, at_ms)
                    at_ms += 100

    def voices(self) -> list[str]:
        return ["ada", "bob"]


class Brain(Component):
    """Says the last message back, letter by letter; "wait" never ends, "full" is refused."""

    accepts = (Prompt,)
    emits = (TextDelta, Completed)
    running = 0

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        Brain.running += 1
        try:
            async for frame in frames:
                assert isinstance(frame, Prompt)
                text = frame.messages[-1].text
                for letter in text:
                    yield TextDelta(letter, spoken=frame.spoken)
                if text == "wait":
                    await asyncio.sleep(3600)
                if text == "full":
                    raise Overloaded("told to be full", retry_after_s=7)
                if text == "fail":
                    raise RuntimeError("told to fail")
                yield Completed("stop", Usage(1, len(text)))
        finally:
            Brain.running -= 1


class Space(Component):
    """Embeds a text as its length and index; "dying" finds its replica gone once in a while."""

    accepts = (TextInput,)
    emits = (Embedding,)

    _died = False

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, TextInput):
                self._died = frame.text == "dying" and not self._died
                if self._died:
                    raise ReplicaGone("replica embed-1 is gone")
                vector = np.array([len(frame.text), frame.index], np.float32)
                yield Embedding(vector, frame.index, tokens=1)


class Brush(Component):
    """Paints `count` pictures of one colour, telling how far it is."""

    accepts = (Generate,)
    emits = (Progress, Image)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            assert isinstance(frame, Generate)
            for index in range(frame.count):
                yield Progress(index, frame.count)
                size = (frame.height or 8, frame.width or 8, 3)
                yield Image(np.full(size, len(frame.prompt), np.uint8), index)
