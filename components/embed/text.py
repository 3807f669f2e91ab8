"""`embed/text`: BERT-style and LLM-style models of sentences, batched by tokens across requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Literal

from pydantic import Field

from ..base import Component, Context, Options, Setup
from ..batching import Batcher
from ..errors import BadInput
from ..frames import Control, Embedding, Frame, TextInput
from ..mailbox import Ended, Mailbox
from ..models import lacking, locate
from ..requestoptions import checked
from .encoder import Dtype, TextEncoder, Tokens, Vector, shorten
from .folder import Pooling

DEFAULT_MODEL = "all-minilm-l6-v2"
INLINE = 2_000
"""Characters that are tokenised sooner than a thread would be woken."""
MOST_AT_WORK = 512
"""Texts of one run that wait for the model, before the next one is read."""


class TextEmbedderOptions(Options):
    """How texts become vectors, and how requests share the model.

    A batch holds up to `max_batch_tokens`; it waits `window_ms` for company. `pooling` and
    `normalise` None follow the model's own files. `dtype` "auto" is bfloat16 where the hardware
    multiplies it (vectors then differ by a cosine of about 1e-4), else float32.
    """

    device: str = "cpu"
    dtype: Dtype = "float32"
    max_batch_tokens: int = Field(default=8192, ge=64)
    window_ms: float = Field(default=0.0, ge=0, le=100)
    pooling: Pooling | None = None
    normalise: bool | None = None
    prompt: str | None = Field(default=None, description="name of a prompt of the model's own")
    too_long: Literal["error", "truncate"] = "error"


class RequestOptions(Options):
    """Options of one text: Matryoshka `dimensions`, `truncate`, or `tokens` in place of text."""

    dimensions: int | None = Field(default=None, ge=1)
    truncate: bool | None = None
    tokens: list[int] | None = Field(default=None, min_length=1)


class TextEmbedder(Component):
    """Texts in, one normalised vector each out, in the order they came."""

    accepts = (TextInput,)
    emits = (Embedding,)
    options = TextEmbedderOptions
    concurrency = 256

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = TextEmbedderOptions.model_validate(dict(setup.options))
        self._encoder: TextEncoder | None = None
        self._batcher: Batcher[Tokens, Vector] | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return lacking(setup.model or DEFAULT_MODEL, "embed/text", "config.json")

    async def load(self) -> None:
        options = self._options
        self._encoder = encoder = await asyncio.to_thread(self._load)
        if options.prompt is not None and options.prompt not in encoder.layout.prompts:
            known = ", ".join(encoder.layout.prompts) or "none"
            raise BadInput(f"prompt {options.prompt!r} is unknown; known: {known}", where="prompt")
        self._batcher = Batcher(
            encoder.encode,
            size=options.max_batch_tokens,
            window_ms=options.window_ms,
            name=self.setup.node,
            cost=lambda item: len(item.ids),
        )
        await self._batcher(encoder.tokenise("warm up", truncate=True))

    def _load(self) -> TextEncoder:
        options = self._options
        return TextEncoder(
            locate(self.setup.model or DEFAULT_MODEL),
            device=options.device,
            dtype=options.dtype,
            threads=self.setup.resources.threads,
            pooling=options.pooling,
            normalise=options.normalise,
        )

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        working: deque[asyncio.Task[Embedding]] = deque()
        async with Mailbox(frames) as mailbox:
            ended = False
            while working or not ended:
                mail = await mailbox.get()
                if isinstance(mail, TextInput):
                    working.append(mailbox.start(self._embed(mail, context), tag=mail.index))
                elif isinstance(mail, Control):
                    yield mail
                ended = ended or isinstance(mail, Ended)
                while working and (working[0].done() or len(working) > MOST_AT_WORK):
                    yield await working.popleft()

    async def _embed(self, frame: TextInput, context: Context) -> Embedding:
        encoder, batcher = self.loaded(self._encoder), self.loaded(self._batcher)
        context.check(where=self.setup.node)
        asked = checked(RequestOptions, frame.options, where=self.setup.node)
        work = (encoder, frame.text, asked)
        small = len(frame.text) <= INLINE
        tokens = self._tokens(*work) if small else await asyncio.to_thread(self._tokens, *work)
        vector = await batcher(tokens)
        if asked.dimensions is not None:
            if asked.dimensions > len(vector):
                raise BadInput(
                    f"{asked.dimensions} dimensions are not possible; the model has {len(vector)}",
                    where="dimensions",
                    param="dimensions",
                )
            vector = shorten(vector, asked.dimensions)
        return Embedding(vector, frame.index, len(tokens.ids))

    def _tokens(self, encoder: TextEncoder, text: str, asked: RequestOptions) -> Tokens:
        if asked.tokens is not None:
            if min(asked.tokens) < 0 or max(asked.tokens) >= encoder.vocabulary:
                raise BadInput(
                    f"tokens are 0 to {encoder.vocabulary - 1} here", where="input", param="input"
                )
            if len(asked.tokens) > encoder.layout.max_tokens:
                raise BadInput(
                    f"{len(asked.tokens)} tokens; the model takes {encoder.layout.max_tokens}",
                    where="input",
                    param="input",
                )
            return Tokens(tuple(asked.tokens))
        asks = asked.truncate
        cut = self._options.too_long == "truncate" if asks is None else asks
        prompt = encoder.layout.prompts.get(self._options.prompt or "", "")
        return encoder.tokenise(prompt + text, truncate=cut)

    async def close(self) -> None:
        if self._batcher is not None:
            await self._batcher.close()
        self._batcher = self._encoder = None
