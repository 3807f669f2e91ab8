"""Language models behind any OpenAI-compatible server: vLLM, SGLang, trtllm-serve, Dynamo …"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal

import httpx
from pydantic import Field

from ..base import Context, Setup
from ..frames import Frame, Prompt
from ..serveroptions import ServerOptions
from .chat import check_adapter, request_body, with_defaults
from .client import ChatClient
from .promptllm import PromptLlm


class RemoteLlmOptions(ServerOptions):
    """Options of `llm/remote`; the node's `model:` is the name that the server knows."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1, description="limit where the prompt sets none")
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    usage: bool = Field(True, description="ask for token counts; off where the server refuses it")
    adapters: Mapping[str, str] = Field(
        default_factory=dict[str, str],
        description="LoRAs that a prompt may name, and the names by which the server knows them",
    )
    extra_body: Mapping[str, Any] = Field(
        default_factory=dict[str, Any], description="further fields of the request, as they stand"
    )


class RemoteLlm(PromptLlm):
    """Streams answers from a server; one prompt after the other, each with its `Completed`.

    Closing a run closes its connection at once, which every server takes as a cancel.
    """

    options = RemoteLlmOptions

    def __init__(self, setup: Setup, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        super().__init__(setup)
        self._options = RemoteLlmOptions.model_validate(setup.options)
        self._transport = transport
        self._client: ChatClient | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return RemoteLlmOptions.model_validate(setup.options).lacking("llm/remote", setup)

    async def load(self) -> None:
        """Open the client; the server itself is first asked by the first prompt.

        Raises:
            MissingRequirement: the model's name or the key is missing.
        """
        endpoint = self._options.endpoint("llm/remote", self.setup)
        self._client = ChatClient(endpoint, where=self.setup.node, transport=self._transport)

    async def answer(self, prompt: Prompt, context: Context) -> AsyncGenerator[Frame, None]:
        context.check(where=self.setup.node)
        client, options = self.loaded(self._client), self._options
        filled = with_defaults(
            prompt,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
        )
        body = request_body(
            filled,
            self._model_of(prompt),
            token_field=options.token_field,
            usage=options.usage,
        )
        body |= options.extra_body
        async with aclosing(client.stream(body, context, spoken=prompt.spoken)) as pieces:
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
