"""`tts/orpheus`: expressive speech by a language model that writes the codes of SNAC.

The model runs in any OpenAI-compatible server that has `/completions` (vLLM, SGLang, llama.cpp);
its codes go on to `codec/snac`, which is a component of its own and batches all streams.
Orpheus: canopyai/Orpheus-TTS, whose prompt format and sampling defaults these are.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import numpy as np
from pydantic import Field

from ..base import Component, Context, Setup
from ..errors import BadInput, ComponentFailed
from ..frames import AudioTokens, Frame, Spoken, TextDelta, Voice
from ..httpstream import StreamClient, reported_error
from ..serveroptions import ServerOptions
from .orpheustokens import CODES, OrpheusTokens
from .sentences import Clause, Clauses, clauses_of
from .speaker import no_voice

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")
FRAME_MS = 2048 * 1000 / 24_000
# Spoken frames go out before their audio is made; the length of a clause is then a guess.
MS_PER_CHARACTER = 65.0


class OrpheusOptions(ServerOptions):
    """Options of `tts/orpheus`; the node's `model:` is the name that the server knows.

    `max_tokens` bounds a clause: 7 tokens are 85 ms of speech.
    """

    voices: tuple[str, ...] = Field(default=VOICES, min_length=1)
    voice: str | None = Field(default=None, description="default voice; None: the first")
    temperature: float = Field(default=0.6, ge=0, le=2)
    top_p: float = Field(default=0.8, gt=0, le=1)
    repetition_penalty: float = Field(default=1.1, ge=1, le=2)
    max_tokens: int = Field(default=2100, ge=CODES)
    first_token_timeout_s: float = Field(default=10.0, gt=0)
    between_tokens_timeout_s: float = Field(default=5.0, gt=0)


class OrpheusTts(Component):
    """Text in as it is written, the codes of its speech out, clause by clause.

    A `Voice` counts from the next clause on; a name that the model doesn't have means the default
    one. The model can't change its pace, so a `Voice`'s speed other than 1 is refused. `Spoken`
    times of a clause that is still being made are a guess; the next clause starts at its true time.
    """

    accepts = (TextDelta, Voice)
    emits = (Spoken, AudioTokens)
    options = OrpheusOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = OrpheusOptions.model_validate(dict(setup.options))
        self._client: StreamClient | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return OrpheusOptions.model_validate(dict(setup.options)).lacking("tts/orpheus", setup)

    async def load(self) -> None:
        """Open the client; the server is first asked by the first clause.

        Raises:
            MissingRequirement: the model's name or the key is missing.
        """
        endpoint = self._options.endpoint("tts/orpheus", self.setup)
        self._client = StreamClient(endpoint, where=self.setup.node, path="/completions")

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        voice, made = self._pick(None), 0
        async with aclosing(clauses_of(frames, Clauses())) as parts:
            async for part in parts:
                if isinstance(part, Voice):
                    voice = self._voice(part)
                elif isinstance(part, Clause):
                    async with aclosing(self._speak(part, voice, made, context)) as spoken:
                        async for answer in spoken:
                            made += frames_of(answer)
                            yield answer
                else:
                    yield part

    async def _speak(
        self, clause: Clause, voice: str, made: int, context: Context
    ) -> AsyncGenerator[Frame]:
        """A clause's `Spoken`, then its codes, one frame of the codec at a time."""
        start_ms = made * FRAME_MS
        guess_ms = len(clause.spoken) * MS_PER_CHARACTER
        yield Spoken(clause.source, start_ms, start_ms + guess_ms)
        if not clause.spoken:
            return
        tokens, found = OrpheusTokens(), False
        async with aclosing(self._complete(clause.spoken, voice, context)) as texts:
            async for text in texts:
                for codes in tokens.push(text):
                    found = True
                    yield AudioTokens(np.array(codes, np.int32))
        if not found:
            raise ComponentFailed(
                f"the model wrote no speech for a clause of {len(clause.spoken)} characters;"
                " is it an Orpheus model, and does the server keep special tokens?",
                where=self.setup.node,
            )

    async def _complete(self, text: str, voice: str, context: Context) -> AsyncGenerator[str]:
        client, options = self.loaded(self._client), self._options
        body: dict[str, Any] = {
            "model": self.setup.model,
            "prompt": prompt(text, voice),
            "stream": True,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "repetition_penalty": options.repetition_penalty,
            "max_tokens": options.max_tokens,
            "stop": ["<custom_token_2>"],
            "skip_special_tokens": False,
        }
        async with aclosing(client.events(body, context)) as events:
            complete = False
            async for event in events:
                told = event or {}
                if told.get("error"):
                    raise reported_error(told["error"], where=self.setup.node)
                for choice in told.get("choices", []):
                    yield str(choice.get("text") or "")
                    complete = complete or bool(choice.get("finish_reason"))
                complete = complete or event is None
            if not complete:
                raise ComponentFailed("the stream broke off before its end", where=self.setup.node)

    def _voice(self, frame: Voice) -> str:
        if frame.speed != 1.0:
            raise BadInput(
                f"speed {frame.speed} is not possible; Orpheus speaks at speed 1",
                where=self.setup.node,
                param="speed",
            )
        if frame.exact and frame.name is not None and frame.name not in self._options.voices:
            raise no_voice(frame.name, self.voices(), where=self.setup.node)
        return self._pick(frame.name)

    def _pick(self, name: str | None) -> str:
        known = self._options.voices
        preferred = self._options.voice or known[0]
        return name if name in known else preferred

    def voices(self) -> list[str]:
        """The voices, the default one first."""
        first = self._pick(None)
        return [first, *(name for name in self._options.voices if name != first)]

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def prompt(text: str, voice: str) -> str:
    """Orpheus' prompt: start of human, the voice's name and the text, end of text and human, then
    start of its own speech."""
    said = f"<|begin_of_text|>{voice}: {text}<|eot_id|>"
    return f"<custom_token_3>{said}<custom_token_4><custom_token_5><custom_token_1>"


def frames_of(frame: Frame) -> int:
    """Codec frames in an answer."""
    return len(frame.codes) // CODES if isinstance(frame, AudioTokens) else 0
