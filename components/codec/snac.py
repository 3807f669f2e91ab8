"""`codec/snac`: the codes of a speech model to sound, batched across streams."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..audio import to_int16
from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..errors import MissingRequirement
from ..frames import Audio, AudioTokens, Control, Frame, Spoken
from ..models import lacking, locate
from .decoder import CODES, Job, SnacDecoder, check_codes
from .windows import Recent, Window, Windows

Samples = NDArray[np.float32]


class SnacOptions(Options):
    """How streams share the decoder. `context` 3 is exact, with a look-ahead of three frames
    (256 ms); 2 is sooner and off by about 1e-4. `compile` is for GPUs: loading then takes minutes.
    `seed` None draws one for each stream."""

    device: str = "cpu"
    window_ms: float = Field(default=15.0, ge=0, le=200)
    context: int = Field(default=3, ge=1, le=6)
    compile: bool = False
    seed: int | None = Field(default=None, ge=0)


class SnacCodec(Component):
    """`AudioTokens` in, 7 codes a frame in the order of Orpheus; `Audio` at 24 kHz out.

    Its concurrency is its batch size. `Spoken` and `Control` frames pass in their place.
    """

    accepts = (AudioTokens, Spoken)
    emits = (Audio, Spoken)
    options = SnacOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = SnacOptions.model_validate(dict(setup.options))
        self._decoder: SnacDecoder | None = None
        self._batcher: Batcher[Job, Samples] | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if setup.model is None:
            return ["codec/snac needs `model:`, a folder or hubertsiuzdak/snac_24khz"]
        return lacking(setup.model, "codec/snac", "config.json")

    async def load(self) -> None:
        if self.setup.model is None:
            raise MissingRequirement(self.requirements(self.setup)[0], where=self.setup.node)
        folder = await asyncio.to_thread(locate, self.setup.model)
        self._decoder = decoder = await asyncio.to_thread(
            SnacDecoder,
            folder,
            device=self._options.device,
            threads=self.setup.resources.threads,
            compiled=self._options.compile,
        )
        self._batcher = Batcher(
            decoder.decode,
            size=self.setup.concurrency,
            window_ms=self._options.window_ms,
            name=self.setup.node,
            key=lambda job: job.shape,
        )
        await asyncio.to_thread(decoder.warm_up, self._options.context)

    @property
    def rate_hz(self) -> int:
        """The model's sample rate."""
        return self.loaded(self._decoder).rate_hz

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        del context
        stream = Stream(self._options)
        async for frame in frames:
            if not isinstance(frame, AudioTokens):
                if isinstance(frame, Spoken | Control):
                    yield frame
                continue
            for window in stream.push(cast("list[int]", frame.codes.tolist())):
                yield await self._sound(stream, window)
        last = stream.windows.flush()
        if last is not None:
            yield await self._sound(stream, last)

    async def _sound(self, stream: Stream, window: Window) -> Audio:
        decoder = self.loaded(self._decoder)
        sound = await self.loaded(self._batcher)(stream.job(window))
        first = window.start + window.keep_from
        start_ms = first * decoder.samples_per_frame * 1000 / decoder.rate_hz
        return Audio(to_int16(sound), decoder.rate_hz, start_ms)

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
        self._batcher = self._decoder = None


class Stream:
    """One stream's codes, as far back as windows need them."""

    def __init__(self, options: SnacOptions) -> None:
        self.windows = Windows(options.context)
        self._seed = secrets.randbits(32) if options.seed is None else options.seed
        self._frames = Recent()
        self._rest: list[int] = []

    def push(self, codes: list[int]) -> list[Window]:
        """Take codes; the windows that they complete. Raises `BadInput` for an impossible code."""
        check_codes(codes)
        self._rest += codes
        whole = len(self._rest) // CODES
        for n in range(whole):
            self._frames.append(self._rest[n * CODES : (n + 1) * CODES])
        del self._rest[: whole * CODES]
        return list(self.windows.push(whole))

    def job(self, window: Window) -> Job:
        """What the decoder gets for a window; frames that no later one needs are let go."""
        frames = tuple(tuple(frame) for frame in self._frames.window(window))
        self._frames.forget(window.start)
        return Job(frames, window.start, self._seed, window.keep_from, window.keep_to)
