"""`vad/silero`: marks audio with the probability of speech, all sessions in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import numpy as np
from pydantic import Field

from ..audio import Resampler
from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..frames import Audio, Clear, Commit, Control, Frame, Samples
from ..models import lacking, locate
from ..silero import CONTEXT, RATE_HZ, WINDOW, Answer, Piece, SileroModel, State

# So many windows are judged in well under a millisecond, which is less than a thread costs.
_INLINE = 12
# A burst of audio goes to the engine in pieces, so that it can't hold up the other streams.
_PIECE_WINDOWS = 16


class SileroOptions(Options):
    """How streams share the engine: batches of up to `batch` windows, gathered for `gather_ms`.

    0 waits for nobody: a batch is what came while the loop was busy, which is more, the more
    sessions there are. Audio whose samples all stay below `quiet_peak` (16 is -66 dB: a muted or
    noise-suppressed microphone) is silence without asking the network.
    """

    batch: int = Field(64, ge=1, le=1024)
    gather_ms: float = Field(0.0, ge=0, le=20)
    quiet_peak: int = Field(16, ge=0, le=200)


class _Stream:
    """One session's audio, at 16 kHz, from chunks of any rate to whole windows."""

    def __init__(self) -> None:
        self.state = State.fresh()
        self._resampler: Resampler | None = None
        self._waiting: Samples = np.empty(0, np.int16)
        self._origin_ms: float | None = None
        self._emitted = 0

    def push(self, audio: Audio) -> Iterator[Samples]:
        """Whole windows that are ready, up to `_PIECE_WINDOWS` at a time."""
        if self._origin_ms is None:
            self._origin_ms = audio.start_ms
        if self._resampler is None or self._resampler.from_hz != audio.rate_hz:
            self._drain()
            self._resampler = Resampler(audio.rate_hz, RATE_HZ)
        self._add(self._resampler.push(audio.pcm))
        whole = len(self._waiting) // WINDOW * WINDOW
        ready, self._waiting = self._waiting[:whole], self._waiting[whole:]
        for start in range(0, whole, _PIECE_WINDOWS * WINDOW):
            yield ready[start : start + _PIECE_WINDOWS * WINDOW]

    def flush(self) -> Samples:
        """The rest, at most a few windows, none of them padded."""
        self._drain()
        rest, self._waiting = self._waiting, self._waiting[:0]
        return rest

    def _drain(self) -> None:
        if self._resampler is not None:
            self._add(self._resampler.flush())

    def _add(self, more: Samples) -> None:
        self._waiting = np.concatenate((self._waiting, more)) if len(self._waiting) else more

    def marked(self, samples: Samples, answer: Answer) -> Iterator[Audio]:
        """The samples as `Audio` per window, each with its probability and its place."""
        probabilities, self.state = answer
        for n, speech in enumerate(probabilities.tolist()):
            pcm = samples[n * WINDOW : (n + 1) * WINDOW]
            start_ms = (self._origin_ms or 0.0) + self._emitted * 1000 / RATE_HZ
            self._emitted += len(pcm)
            yield Audio(pcm, RATE_HZ, start_ms, speech)


class SileroVad(Component):
    """Silero VAD v6. Audio of any rate in, windows of 512 samples at 16 kHz with `speech` out.

    Before a `Commit` or a `Clear`, and at the end, a shorter `Audio` carries the rest (judged as
    if silence followed), so that no sample is lost and none invented.
    """

    accepts = (Audio, Control)
    emits = (Audio,)
    options = SileroOptions
    concurrency = 256

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._settings = SileroOptions.model_validate(dict(setup.options))
        self._batcher: Batcher[Piece, Answer] | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return lacking(setup.model or "silero-vad", "vad/silero")

    async def load(self) -> None:
        model = await asyncio.to_thread(self._load)
        self._batcher = Batcher(
            model.step,
            size=self._settings.batch,
            window_ms=self._settings.gather_ms,
            inline=_INLINE,
            cost=lambda one: one.windows,
            name=self.setup.node,
        )

    def _load(self) -> SileroModel:
        path = locate(self.setup.model or "silero-vad")
        return SileroModel(path, threads=self.setup.resources.threads)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        del context
        stream = _Stream()
        async for frame in frames:
            if isinstance(frame, Audio):
                for samples in stream.push(frame):
                    for window in await self._judge(stream, samples):
                        yield window
                continue
            if isinstance(frame, Commit | Clear):
                for window in await self._rest(stream):
                    yield window
            yield frame
        for window in await self._rest(stream):
            yield window

    async def _judge(self, stream: _Stream, samples: Samples) -> list[Audio]:
        if is_quiet(samples, self._settings.quiet_peak):
            return list(stream.marked(samples, hushed(samples, stream.state)))
        answer = await self.loaded(self._batcher)(Piece(samples, stream.state))
        return list(stream.marked(samples, answer))

    async def _rest(self, stream: _Stream) -> list[Audio]:
        samples = stream.flush()
        return await self._judge(stream, samples) if len(samples) else []

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
            self._batcher = None


def is_quiet(samples: Samples, peak: int) -> bool:
    """Whether every sample is below `peak`."""
    return int(samples.max()) < peak and int(samples.min()) > -peak


def hushed(samples: Samples, state: State) -> Answer:
    """The answer for silence: no speech, and the network's memory as it was."""
    context = np.zeros(CONTEXT, np.float32)
    speech = np.zeros(-(-len(samples) // WINDOW), np.float32)
    return speech, State(state.hidden, state.cell, context)
