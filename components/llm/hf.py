"""`llm/hf`: language models on transformers, with continuous batching, pictures as embeddings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Literal, cast

from pydantic import Field

from ..base import Component, Context, Options, Setup
from ..errors import BadInput
from ..frames import (
    Completed,
    Control,
    Embedding,
    Frame,
    Likeliest,
    Prompt,
    TextDelta,
    ToolCall,
    Usage,
    Voice,
)
from ..models import lacking, locate
from ..vlm import Picture, picture_of
from .chat import check_adapter, choice_json
from .detokenise import Detokeniser
from .guide import Guide, Guides
from .hfloop import HfLoop, Request
from .hfmodel import HfModel
from .hfprefix import PrefixCache
from .hfprompt import PromptWriter
from .sampling import Sampler, Scored
from .toolprompt import ToolReader, for_template


class HfLlmOptions(Options):
    """Options of `llm/hf`; tokens are the model's own."""

    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    context_tokens: int = Field(4096, ge=64, description="prompt and answer together")
    parallel: int | None = Field(
        None, ge=1, le=256, description="answers at a time; the node's concurrency, at most 16"
    )
    max_tokens: int = Field(512, ge=1, description="limit where the prompt sets none")
    temperature: float = Field(0.7, ge=0, le=2)
    top_p: float = Field(0.95, gt=0, le=1)
    prompt_stretch: int = Field(
        512, ge=16, description="prompt tokens per step: what others wait for, and a cancel"
    )
    adapters: Mapping[str, str] = Field(
        default_factory=dict[str, str], description="LoRAs: a name, and its folder or hub id"
    )
    prefix_cache_mib: int = Field(
        256,
        ge=0,
        le=1 << 20,
        description="what is kept of read prompts, for those that begin alike",
    )
    prefix_block: int = Field(32, ge=1, le=1024, description="tokens that are kept together")
    chat_template: str | None = Field(None, description="Jinja, instead of the model's own")


class HfLlm(Component):
    """One model for all sessions. Pictures come as `Embedding`s of `vision/encoder` before their
    prompt. Closing a run frees its row within a step. Tool calls are read in the tagged form that
    Qwen and Hermes models write. A `Voice` is passed on in its place."""

    accepts = (Prompt, Embedding, Voice)
    emits = (TextDelta, ToolCall, Completed, Voice)
    options = HfLlmOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = HfLlmOptions.model_validate(dict(setup.options))
        self._slots = self._options.parallel or max(1, min(setup.concurrency, 16))
        self._model: HfModel | None = None
        self._writer: PromptWriter | None = None
        self.loop: HfLoop | None = None
        self._guides: Guides | None = None
        self._ends: frozenset[int] = frozenset()

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if not setup.model:
            return ["llm/hf needs `model:`, a folder or hub id of a model for transformers"]
        adapters = HfLlmOptions.model_validate(dict(setup.options)).adapters.values()
        return [
            *lacking(setup.model, "llm/hf", "config.json"),
            *(lack for one in adapters for lack in lacking(one)),
        ]

    async def load(self) -> None:
        await asyncio.to_thread(self._load)
        model = cast("HfModel", self._model)
        self.loop = HfLoop(
            model,
            slots=self._slots,
            stretch=self._options.prompt_stretch,
            prefixes=PrefixCache(self._options.prefix_cache_mib << 20, self._options.prefix_block),
            name=self.setup.node,
        )
        self.loop.start()

    def _load(self) -> None:
        options, folder = self._options, locate(self.setup.model or "")
        self._model = model = HfModel(
            folder,
            device=options.device,
            dtype=options.dtype,
            threads=self.setup.resources.threads,
            context_tokens=options.context_tokens,
            adapters={name: locate(one) for name, one in options.adapters.items()},
        )
        self._writer = writer = PromptWriter(
            folder,
            family=model.family,
            image_token=model.image_token,
            template=options.chat_template,
        )
        self._guides = Guides(writer.tokenizer, model.vocabulary)
        self._ends = writer.ends

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        pictures: dict[int, Embedding] = {}
        async for frame in frames:
            if isinstance(frame, Embedding):
                pictures[frame.index] = frame
            elif isinstance(frame, Prompt):
                seen, pictures = pictures, {}
                async with aclosing(self._answer(frame, seen, context)) as answer:
                    async for piece in answer:
                        yield piece
            elif isinstance(frame, Control | Voice):
                yield frame

    async def _answer(
        self, prompt: Prompt, seen: dict[int, Embedding], context: Context
    ) -> AsyncGenerator[Frame, None]:
        context.check(where=self.setup.node)
        self._check(prompt)
        writer, loop = self.loaded(self._writer), self.loaded(self.loop)
        pictures = self._pictures(prompt, seen)
        calls, plain = for_template(prompt, writer.knows_tools)
        ids = await asyncio.to_thread(writer.write, plain, pictures)
        request = self._request(plain, ids, pictures, await self._guide(plain))
        usage = (len(ids), sum(picture.tokens for picture in pictures))
        reader = ToolReader(prompt, where=self.setup.node) if calls else None
        async with aclosing(self._stream(loop, writer, request, prompt, usage)) as pieces:
            async for piece in pieces:
                for frame in reader.feed(piece) if reader else (piece,):
                    yield frame

    def _check(self, prompt: Prompt) -> None:
        choice_json(prompt)
        check_adapter(prompt, self._options.adapters, where=self.setup.node)

    def _pictures(self, prompt: Prompt, seen: dict[int, Embedding]) -> tuple[Picture, ...]:
        """The rows of the prompt's pictures, in order."""
        count = sum(len(message.images) for message in prompt.messages)
        model = cast("HfModel", self._model)
        if count and model.family is None:
            raise self._bad("this model reads no pictures", "messages")
        if count != len(seen) or any(n not in seen for n in range(count)):
            raise self._bad(
                f"{count} pictures came with {len(seen)} embeddings; a node vision/encoder of the"
                " same model belongs before this one",
                "messages",
            )
        return tuple(
            picture_of(seen[n], width=model.width, model=model.model_type, where=self.setup.node)
            for n in range(count)
        )

    def _bad(self, message: str, param: str) -> BadInput:
        return BadInput(message, where=self.setup.node, param=param)

    def _request(
        self, prompt: Prompt, ids: list[int], pictures: tuple[Picture, ...], guide: Guide | None
    ) -> Request:
        options = self._options
        room = options.context_tokens - len(ids)
        if room < 1 or not ids:
            raise self._bad(
                f"the prompt has {len(ids)} tokens, the context holds {options.context_tokens};"
                " shorten messages, leave older ones out, or look at pictures less closely",
                "messages",
            )
        sampler = Sampler(
            options.temperature if prompt.temperature is None else prompt.temperature,
            options.top_p if prompt.top_p is None else prompt.top_p,
            prompt.seed,
            prompt.logprobs,
            guide,
        )
        most = min(prompt.max_tokens or options.max_tokens, room)
        return Request(ids, pictures, sampler, most, self._ends, prompt.adapter)

    async def _guide(self, prompt: Prompt) -> Guide | None:
        """What holds the answer to its schema; of a large one it takes seconds to make."""
        if prompt.schema is None:
            return None
        guides = self.loaded(self._guides)
        return await asyncio.to_thread(guides.guide, prompt.schema, where=self.setup.node)

    async def _stream(
        self,
        loop: HfLoop,
        writer: PromptWriter,
        request: Request,
        prompt: Prompt,
        usage: tuple[int, int],
    ) -> AsyncGenerator[Frame, None]:
        began_s, first_ms = time.monotonic(), 0.0
        text = Detokeniser(writer.decode, prompt.stop)
        scores: list[Scored] = []
        reason: Any = "stop"
        async with aclosing(loop.answer(request)) as tokens:
            async for item in tokens:
                if isinstance(item, str):
                    reason = item
                    break
                first_ms = first_ms or (time.monotonic() - began_s) * 1000
                if prompt.logprobs is not None:
                    scores.append(item)
                if piece := text.push(item.token):
                    yield self._delta(writer, piece, prompt, scores)
                    scores = []
                if text.stopped:
                    break
        rest = "" if text.stopped else text.finish()
        if text.stopped:
            reason, scores = "stop", []
        if rest or scores:
            yield self._delta(writer, rest, prompt, scores)
        used = Usage(usage[0], request.made, request.cached, usage[1])
        yield Completed(reason, used, first_ms)

    @staticmethod
    def _delta(writer: PromptWriter, text: str, prompt: Prompt, scores: list[Scored]) -> TextDelta:
        name = writer.token_text
        logprobs = tuple((name(one.token), one.logprob) for one in scores)
        top: tuple[Likeliest, ...] = ()
        if prompt.logprobs:
            top = tuple(
                Likeliest(tuple((name(token), value) for token, value in one.top)) for one in scores
            )
        return TextDelta(text, prompt.spoken, logprobs, top)

    async def close(self) -> None:
        if self.loop is not None:
            await self.loop.close()
        self.loop = self._model = self._writer = self._guides = None

    def utilisation(self) -> float | None:
        """Share of the rows that are in use."""
        return None if self.loop is None else min(self.loop.active / self._slots, 1.0)
