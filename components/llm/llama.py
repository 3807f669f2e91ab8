"""GGUF models on llama.cpp, with continuous batching over every session (xllamacpp)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
from pydantic import Field

from ..base import Context, Options, Setup
from ..errors import BadInput, ComponentFailed
from ..frames import Frame, Message, Prompt, TextDelta
from .chat import check_adapter, choice_json, request_body, with_defaults
from .client import ChatClient, Endpoint
from .gguf import DEFAULT_MODEL, chat_template, gguf_file, gguf_lacking
from .llamachild import LlamaChild
from .promptllm import PromptLlm
from .schemas import check_schemas
from .toolprompt import ToolReader, without_tools

STUCK_S = 5.0
"""Who gets no answer from llama.cpp's own loop for so long takes it for hung."""


class LlamaOptions(Options):
    """Options of `llm/llama`; tokens are the model's own."""

    context_tokens: int = Field(4096, ge=256, description="prompt and answer together, per session")
    parallel: int | None = Field(
        None, ge=1, le=64, description="answers at a time; the node's concurrency, at most 8"
    )
    max_tokens: int = Field(512, ge=1, description="limit where the prompt sets none")
    temperature: float = Field(0.7, ge=0, le=2)
    top_p: float = Field(0.95, gt=0, le=1)
    batch_tokens: int = Field(
        64, ge=32, le=4096, description="prompt tokens per step: a cancel waits for one step"
    )
    prompt_cache_mib: int = Field(256, ge=0, description="memory for prompts of idle sessions")
    gpu_layers: int = Field(-1, ge=-1, description="layers on a GPU (-1 all); not on a CPU build")
    chat_template: str | None = Field(None, description="Jinja, instead of the model's own")
    projector: str | None = Field(None, description="GGUF file (mmproj) that lets it see images")
    first_token_timeout_s: float = Field(60.0, gt=0)
    between_tokens_timeout_s: float = Field(20.0, gt=0)


class LlamaLlm(PromptLlm):
    """One model for all sessions: each prompt takes a slot, and every step computes all slots.

    A slot keeps the prompt it had, so that the next turn of a conversation costs only what is
    new in it. Closing a run frees its slot within a step.
    """

    options = LlamaOptions

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._options = LlamaOptions.model_validate(setup.options)
        self._parallel = self._options.parallel or max(1, min(setup.concurrency, 8))
        self._child: LlamaChild | None = None
        self._client: ChatClient | None = None
        self._own_tools = False
        self._sees = False
        self._starting = asyncio.Lock()
        self._active = 0

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        projector = LlamaOptions.model_validate(setup.options).projector
        models = [setup.model or DEFAULT_MODEL, *([projector] if projector else [])]
        return [lack for model in models for lack in gguf_lacking(model)]

    async def load(self) -> None:
        """Start the engine in a process of its own and answer one prompt to warm it up.

        Raises:
            MissingRequirement: the model isn't there.
            ComponentFailed: llama.cpp can't load it.
        """
        async with self._starting:
            if self._child is not None and self._child.alive:
                return
            await self._stop()
            path = await asyncio.to_thread(gguf_file, self.setup.model)
            settings = await asyncio.to_thread(self._settings, path)
            self._child = LlamaChild(settings, where=self.setup.node)
            try:
                await self._child.start()
                await self._connect()
            except BaseException:
                await self._stop()
                raise

    def _settings(self, path: Path) -> dict[str, Any]:
        options, threads = self._options, self.setup.resources.threads
        return {
            "model.path": str(path),
            "n_parallel": self._parallel,
            "n_ctx": options.context_tokens * self._parallel,
            "n_batch": max(options.batch_tokens, self._parallel),
            "n_ubatch": max(options.batch_tokens, self._parallel),
            "n_gpu_layers": options.gpu_layers,
            "cpuparams.n_threads": threads,
            "cpuparams.poll": 0,
            "cpuparams_batch.n_threads": threads,
            "cpuparams_batch.poll": 0,
            # A thread for each prompt that may wait, and some for those who ask how it is.
            "n_threads_http": max(self._parallel, self.setup.concurrency) + 2,
            "cache_ram_mib": options.prompt_cache_mib,
            "chat_template": options.chat_template or chat_template(self.setup.model),
            "mmproj.path": str(gguf_file(options.projector)) if options.projector else "",
            "fit_params": False,
            "ui": False,
            "verbosity": 1,
        }

    async def _connect(self) -> None:
        child = cast("LlamaChild", self._child)
        headers = {"Authorization": f"Bearer {child.key}"}
        async with httpx.AsyncClient(base_url=child.address, headers=headers) as http:
            told = (await http.get("/props")).raise_for_status().json()
        self._sees = bool(told.get("modalities", {}).get("vision"))
        self._own_tools = bool(told.get("chat_template_caps", {}).get("supports_tools"))
        endpoint = Endpoint(
            f"{child.address}/v1",
            headers,
            first_s=self._options.first_token_timeout_s,
            between_s=self._options.between_tokens_timeout_s,
            retries=0,
        )
        self._client = ChatClient(endpoint, where=self.setup.node)
        hello = Prompt((Message("user", "Hello"),), max_tokens=2)
        async for _ in self._stream(hello, Context()):
            pass

    async def answer(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        context.check(where=self.setup.node)
        check_adapter(prompt, where=self.setup.node)
        choice_json(prompt)
        check_schemas(prompt, where=self.setup.node)
        if not self._sees and any(message.images for message in prompt.messages):
            raise BadInput(
                "this model reads no images; one that does needs its projector (mmproj) in options",
                where=self.setup.node,
                param="messages",
            )
        if self._child is None or not self._child.alive:
            await self.load()
        self._active += 1
        try:
            async with aclosing(self._stream(prompt, context)) as pieces:
                async for piece in pieces:
                    yield piece
        except ComponentFailed as error:
            # The connection breaks a moment before the process is known to be over.
            if self._child is not None and await self._child.ended(0.5):
                raise ComponentFailed(
                    "llama.cpp's process ended; the next prompt starts it again",
                    where=self.setup.node,
                ) from error
            if self._child is not None and not await self._child.answers(STUCK_S):
                await self._child.stop(patience_s=0)
                raise ComponentFailed(
                    "llama.cpp hung and was ended; the next prompt starts it again",
                    where=self.setup.node,
                ) from error
            raise
        finally:
            self._active -= 1

    async def _stream(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        """The frames of one answer, tools included whether the template knows them or not."""
        options = self._options
        filled = with_defaults(
            prompt,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
        )
        reader = None if self._own_tools else ToolReader(prompt, where=self.setup.node)
        unranked = prompt.logprobs == 0
        if unranked:
            filled = replace(filled, logprobs=1)  # llama.cpp tells none unless it ranks some
        body = request_body(without_tools(filled) if reader else filled, "llama")
        client = cast("ChatClient", self._client)
        async with aclosing(client.stream(body, context, spoken=prompt.spoken)) as pieces:
            async for piece in pieces:
                if unranked and isinstance(piece, TextDelta):
                    piece = replace(piece, top=())
                for frame in reader.feed(piece) if reader else (piece,):
                    yield frame

    async def _stop(self) -> None:
        client, self._client = self._client, None
        child, self._child = self._child, None
        if client is not None:
            await client.close()
        if child is not None:
            await child.stop()

    async def close(self) -> None:
        async with self._starting:
            await self._stop()

    def utilisation(self) -> float | None:
        """Share of the slots that answer now; above 1 while prompts wait for one."""
        return min(self._active / self._parallel, 1.0)
