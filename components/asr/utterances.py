"""Utterances to transcripts on any Whisper engine: one model for all sessions, with partials."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator

from pydantic import Field

from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..errors import ComponentFailed
from ..frames import (
    Audio,
    Control,
    Fault,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Transcript,
    TranscriptionSettings,
)
from ..mailbox import Done, Ended, Mailbox, Tick
from .engine import Engine
from .memory import Memory
from .requests import Decoded, Request
from .stream import Stream, StreamRules
from .window import Stretch


class UtteranceOptions(Options):
    """How speech is decoded, whatever the engine.

    `context_tokens` of earlier utterances bias the next; more than 0 helps with names, but makes
    small models echo short speech, which then costs a second decode. `partial_ms`: new audio
    between partial transcripts; `window_s`: longest piece decoded at once.
    """

    batch: int = Field(8, ge=1, le=64)
    beam_size: int = Field(1, ge=1, le=10)
    context_tokens: int = Field(0, ge=0, le=160)
    partial_ms: float = Field(600.0, ge=200, le=10_000)
    window_s: float = Field(25.0, ge=5, le=28)


class UtteranceAsr(Component):
    """Utterances in (from a turn detector), transcripts out.

    A pause starts the decode, so that the final transcript is there when the turn ends; each
    `SpeechStopped` that isn't dropped gets exactly one, in order, or a `Fault` with its number.
    Silence, noise and what Whisper makes up give "".
    """

    accepts = (SpeechStarted, Audio, SpeechPaused, SpeechStopped, Control)
    emits = (Transcript, Fault)
    concurrency = 256

    def __init__(self, setup: Setup, settings: UtteranceOptions) -> None:
        super().__init__(setup)
        self._shared = settings
        self._engine: Engine | None = None
        self._batcher: Batcher[Request, Decoded] | None = None
        self._running = 0

    @abstractmethod
    def build(self) -> Engine:
        """Load the engine; called in a thread."""

    async def load(self) -> None:
        self._engine = await asyncio.to_thread(self.build)
        self._batcher = Batcher(
            self._engine.transcribe,
            size=min(self._shared.batch, self.setup.concurrency),
            name=self.setup.node,
        )

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        del context
        if self._engine is None:
            raise ComponentFailed("it isn't loaded", where=self.setup.node)
        memory = Memory(
            self._engine.tokens,
            context_tokens=self._shared.context_tokens,
            beam_size=self._shared.beam_size,
        )
        rules = StreamRules(self._shared.partial_ms, self._shared.window_s * 1000)
        async with Mailbox(frames) as mailbox:
            stream = Stream(
                mailbox, memory, self._decode, self._is_idle, node=self.setup.node, rules=rules
            )
            ended = False
            while not ended or stream.waiting:
                mail = await mailbox.get()
                if isinstance(mail, Ended):
                    ended = True
                elif isinstance(mail, Done):
                    for frame in stream.done(mail):
                        yield frame
                elif not isinstance(mail, Tick):
                    for frame in stream.frame(mail):
                        yield frame
                    if isinstance(mail, Control) and not isinstance(mail, TranscriptionSettings):
                        yield mail
                while (work := stream.behind) is not None:
                    await asyncio.wait({work})

    def languages(self) -> list[str]:
        """The languages that the model knows, by ISO 639-1; none until it is loaded."""
        return [] if self._engine is None else sorted(self._engine.tokens.languages)

    def _is_idle(self) -> bool:
        return self._running == 0

    async def _decode(
        self, memory: Memory, stretch: Stretch, before: str, partial: bool
    ) -> Decoded:
        """One decode in the next batch; a partial isn't worth a second try."""
        if self._batcher is None:
            raise ComponentFailed("it isn't loaded", where=self.setup.node)
        request = memory.request(stretch, before=before, tries=1 if partial else 3)
        self._running += 1
        try:
            return await self._batcher(request)
        finally:
            self._running -= 1

    def utilisation(self) -> float | None:
        return None if self._batcher is None else float(self._running > 0)

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
            self._batcher = None
        self._engine = None
