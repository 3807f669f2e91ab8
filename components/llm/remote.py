"""Language models behind any OpenAI-compatible server: vLLM, SGLang, trtllm-serve, Dynamo …"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal

import httpx
from pydantic import Field, HttpUrl

from ..base import Component, Context, Options, Setup
from ..errors import MissingRequirement
from ..frames import Completed, Control, Frame, Prompt, TextDelta, ToolCall, Voice
from .chat import check_adapter, request_body
from .client import ChatClient, Endpoint


class RemoteLlmOptions(Options):
    """Options of `llm/remote`; the node's `model:` is the name that the server knows."""

    base_url: HttpUrl = Field(description="the server's API root, at most servers ending in /v1")
    api_key_env: str | None = Field(None, description="environment variable that holds the key")
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1, description="limit where the prompt sets none")
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    usage: bool = Field(True, description="ask for token counts; off where the server refuses it")
    connect_timeout_s: float = Field(3.0, gt=0)
    first_token_timeout_s: float = Field(30.0, gt=0)
    between_tokens_timeout_s: float = Field(10.0, gt=0)
    retries: int = Field(1, ge=0, le=5, description="only before the first byte of an answer")
    adapters: Mapping[str, str] = Field(
        default_factory=dict[str, str],
        description="LoRAs that a prompt may name, and the names by which the server knows them",
    )
    headers: Mapping[str, str] = Field(default_factory=dict[str, str])
    extra_body: Mapping[str, Any] = Field(
        default_factory=dict[str, Any], description="further fields of the request, as they stand"
    )


class RemoteLlm(Component):
    """Streams answers from a server; one prompt after the other, each with its `Completed`.

    Closing a run closes its connection at once, which every server takes as a cancel. A `Voice`
    is passed on in its place, for the TTS behind.
    """

    accepts = (Prompt, Voice)
    emits = (TextDelta, ToolCall, Completed, Voice)
    options = RemoteLlmOptions

    def __init__(self, setup: Setup, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        super().__init__(setup)
        self._options = RemoteLlmOptions.model_validate(setup.options)
        self._transport = transport
        self._client: ChatClient | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        options = RemoteLlmOptions.model_validate(setup.options)
        lacks: list[str] = []
        if not setup.model:
            lacks.append("llm/remote needs `model:`, the name by which the server knows it")
        if options.api_key_env and not os.environ.get(options.api_key_env):
            lacks.append(f"the environment variable {options.api_key_env} (api_key_env) is not set")
        return lacks

    async def load(self) -> None:
        """Open the client; the server itself is first asked by the first prompt.

        Raises:
            MissingRequirement: the model's name or the key is missing.
        """
        lacks = self.requirements(self.setup)
        if lacks:
            raise MissingRequirement("; ".join(lacks), where=self.setup.node)
        options, headers = self._options, dict(self._options.headers)
        if options.api_key_env:
            headers["Authorization"] = f"Bearer {os.environ[options.api_key_env]}"
        endpoint = Endpoint(
            str(options.base_url),
            headers,
            options.connect_timeout_s,
            options.first_token_timeout_s,
            options.between_tokens_timeout_s,
            options.retries,
        )
        self._client = ChatClient(endpoint, where=self.setup.node, transport=self._transport)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for frame in frames:
            if isinstance(frame, Prompt):
                async with aclosing(self._answer(frame, context)) as answer:
                    async for piece in answer:
                        yield piece
            elif isinstance(frame, Control | Voice):
                yield frame

    async def _answer(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        context.check(where=self.setup.node)
        if self._client is None:
            raise MissingRequirement("load() comes before run()", where=self.setup.node)
        options = self._options
        filled = replace(
            prompt,
            max_tokens=prompt.max_tokens or options.max_tokens,
            temperature=options.temperature if prompt.temperature is None else prompt.temperature,
            top_p=options.top_p if prompt.top_p is None else prompt.top_p,
        )
        body = request_body(
            filled,
            self._model_of(prompt),
            token_field=options.token_field,
            usage=options.usage,
        )
        body |= options.extra_body
        async with aclosing(self._client.stream(body, context, spoken=prompt.spoken)) as pieces:
            async for piece in pieces:
                yield piece

    def _model_of(self, prompt: Prompt) -> str:
        """What the server calls the model, or the adapter that the prompt names."""
        if prompt.adapter is None:
            return self.setup.model or ""
        check_adapter(prompt, self._options.adapters, where=self.setup.node)
        return self._options.adapters[prompt.adapter]

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
