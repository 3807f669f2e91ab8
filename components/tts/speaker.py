"""What every TTS engine shares: text in, clauses out as audio, one model for all sessions."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pydantic import Field

from ..audio import Floats
from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..errors import BadInput, ComponentFailed
from ..frames import Audio, Control, Frame, Samples, Spoken, TextDelta, Voice
from .sentences import Clause, Clauses, Cuts, clauses_of
from .shape import clip, stretch

Value = TypeVar("Value")
log = logging.getLogger("motet.tts")

SLOWEST, FASTEST = 0.25, 4.0
MOST_NAMED = 20


class SpeakerOptions(Options):
    """Options of every `tts/…`."""

    voice: str | None = Field(None, description="the voice where the session names none it has")
    chunk_ms: int = Field(60, ge=10, le=1000, description="length of the audio frames")
    gain_db: float | None = Field(None, ge=-40, le=40, description="instead of the engine's own")
    first_clause_chars: int = Field(
        20, ge=1, description="the first clause may end here at a comma"
    )
    clause_chars: int = Field(250, ge=40, le=600, description="longest piece spoken in one go")
    sentence_pause_ms: int = Field(150, ge=0, le=2000)
    comma_pause_ms: int = Field(60, ge=0, le=2000)


@dataclass(frozen=True, slots=True)
class _Job:
    text: str
    voice: str
    speed: float


@dataclass(frozen=True, slots=True)
class _Said:
    """A clause with its audio; `silence_ms` before it is the pause of the clause before."""

    clause: Clause
    pcm: Samples
    silence_ms: int
    compute_ms: float


class Speaker(Component):
    """Speaks the text it is sent, clause by clause; an engine adds `open` and `synthesize`.

    Each clause goes out as a `Spoken`, then its `Audio`. One clause is made while the one before
    is taken; further ones wait until somebody wants them, so an answer that nobody hears to the
    end isn't synthesised to the end. A `Voice` counts from the next clause on.
    """

    accepts = (TextDelta, Voice)
    emits = (Spoken, Audio)
    options = SpeakerOptions

    rate_hz: int = 24000
    speeds: tuple[float, float] = (SLOWEST, FASTEST)
    gain_db: float = 0.0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        speaking = self.options.model_validate(setup.options)
        assert isinstance(speaking, SpeakerOptions)
        self._speaking = speaking
        self._batcher: Batcher[_Job, Samples] | None = None

    @abstractmethod
    def open(self) -> None:
        """Load the weights; blocks, called in a thread."""

    @abstractmethod
    def synthesize(self, text: str, voice: str, speed: float) -> Floats:
        """Samples in -1..1 at `rate_hz` for a clause; blocks, called in one thread at a time."""

    @abstractmethod
    def voices(self) -> list[str]:
        """The voices that can be used here and now, the default one first."""

    async def load(self) -> None:
        """Load the engine and speak a word to warm it up, off the event loop."""
        await asyncio.to_thread(self.open)
        self._batcher = Batcher(self._infer, size=1, name=self.setup.node)
        await self._batcher(_Job("Hello there.", self.pick(None), 1.0))

    async def close(self) -> None:
        batcher, self._batcher = self._batcher, None
        if batcher is not None:
            await batcher.close()

    def pick(self, name: str | None, *, exact: bool = False) -> str:
        """The voice for a name that a client gave: the default one if the engine has none of it.

        Raises:
            BadInput: it has none, and is to have it `exact`.
        """
        known = self.voices()
        if name in known:
            return name
        if exact and name is not None:
            raise no_voice(name, known, where=self.setup.node)
        preferred = self._speaking.voice
        fallback = preferred if preferred in known else known[0]
        if name is not None:
            log.debug("voice %r is not one of %s; speaking as %r", name, known, fallback)
        return fallback

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        samples = 0
        async with aclosing(one_ahead(self._said(frames, context))) as ahead:
            async for said in ahead:
                if isinstance(said, Control):
                    yield said
                    continue
                silence = np.zeros(self.rate_hz * said.silence_ms // 1000, np.int16)
                pcm = np.concatenate([silence, said.pcm])
                start_ms = samples * 1000 / self.rate_hz
                samples += len(pcm)
                end_ms = samples * 1000 / self.rate_hz
                yield Spoken(said.clause.source, start_ms, end_ms, said.compute_ms)
                for chunk in self._chunks(pcm, start_ms):
                    yield chunk

    def _chunks(self, pcm: Samples, start_ms: float) -> Iterator[Audio]:
        size = self.rate_hz * self._speaking.chunk_ms // 1000
        for at in range(0, len(pcm), size):
            yield Audio(pcm[at : at + size], self.rate_hz, start_ms + at * 1000 / self.rate_hz)

    async def _said(
        self, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncGenerator[_Said | Control, None]:
        """Each clause with its audio, in order; made when asked for."""
        options = self._speaking
        cuts = Cuts(
            options.first_clause_chars,
            min(120, options.clause_chars),
            options.clause_chars,
            options.sentence_pause_ms,
            options.comma_pause_ms,
            max(options.sentence_pause_ms, 220 if options.sentence_pause_ms else 0),
        )
        voice, count, pause_ms = Voice(), 0, 0
        async for part in clauses_of(frames, Clauses(cuts)):
            if isinstance(part, Voice):
                self.pick(part.name, exact=part.exact)
                voice = part
            elif isinstance(part, Control):
                yield part
            else:
                count += 1
                said = await self._say(part, voice, count, pause_ms, context)
                pause_ms = part.pause_ms if part.spoken else pause_ms
                yield said

    async def _say(
        self, clause: Clause, voice: Voice, count: int, pause_ms: int, context: Context
    ) -> _Said:
        """Synthesise one clause.

        Raises:
            ComponentFailed: the engine broke; the message has the clause's number, not its words.
        """
        if not clause.spoken:
            return _Said(clause, np.zeros(0, np.int16), 0, 0.0)
        context.check(where=self.setup.node)
        batcher = self.loaded(self._batcher)
        started_s = time.monotonic()
        speed = min(max(voice.speed, SLOWEST), FASTEST)
        try:
            pcm = await batcher(_Job(clause.spoken, self.pick(voice.name), speed))
        except ComponentFailed as error:
            raise ComponentFailed(
                f"clause {count} ({len(clause.spoken)} characters): {error.message}",
                where=self.setup.node,
            ) from error
        return _Said(clause, pcm, pause_ms, (time.monotonic() - started_s) * 1000)

    def _infer(self, jobs: list[_Job]) -> list[Samples | BaseException]:
        return [self._render(job) for job in jobs]

    def _render(self, job: _Job) -> Samples:
        """One clause, trimmed; what the engine can't do for the speed is done by stretching."""
        speed = min(max(job.speed, self.speeds[0]), self.speeds[1])
        samples = self.synthesize(job.text, job.voice, speed)
        samples = stretch(samples, self.rate_hz, speed / job.speed)
        gain_db = self.gain_db if self._speaking.gain_db is None else self._speaking.gain_db
        return clip(samples, self.rate_hz, 10 ** (gain_db / 20), where=self.setup.node)


def no_voice(name: str, known: Sequence[str], *, where: str) -> BadInput:
    """What is said of a voice that an engine doesn't have."""
    rest = len(known) - MOST_NAMED
    more = f" and {rest} more, see /v1/audio/voices" if rest > 0 else ""
    return BadInput(
        f"no voice {name!r:.60}; possible: {', '.join(known[:MOST_NAMED])}{more}",
        where=where,
        param="voice",
    )


async def one_ahead(source: AsyncGenerator[Value, None]) -> AsyncGenerator[Value, None]:
    """The values of `source`, the next one being made while the last one is used.

    Closing it cancels what is being made and closes `source`.
    """
    making = asyncio.create_task(anext(source, None))
    try:
        while (value := await making) is not None:
            making = asyncio.create_task(anext(source, None))
            yield value
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await source.aclose()
