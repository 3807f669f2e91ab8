"""Where a node's OpenAI-compatible server is, with which key, and how long to wait for it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pydantic import Field, HttpUrl

from .base import Options, Setup
from .errors import MissingRequirement
from .httpstream import Endpoint


class ServerOptions(Options):
    """Options of every node whose `model:` is the name by which a server knows it."""

    base_url: HttpUrl = Field(description="the server's API root, at most servers ending in /v1")
    api_key_env: str | None = Field(None, description="environment variable that holds the key")
    connect_timeout_s: float = Field(3.0, gt=0)
    first_token_timeout_s: float = Field(30.0, gt=0)
    between_tokens_timeout_s: float = Field(10.0, gt=0)
    retries: int = Field(1, ge=0, le=5, description="only before the first byte of an answer")
    headers: Mapping[str, str] = Field(default_factory=dict[str, str])

    def lacking(self, use: str, setup: Setup) -> list[str]:
        """What is missing to ask the server, one sentence each."""
        lacks: list[str] = []
        if not setup.model:
            lacks.append(f"{use} needs `model:`, the name by which the server knows it")
        if self.api_key_env and not os.environ.get(self.api_key_env):
            lacks.append(f"the environment variable {self.api_key_env} (api_key_env) is not set")
        return lacks

    def endpoint(self, use: str, setup: Setup) -> Endpoint:
        """The server, its key among the headers.

        Raises:
            MissingRequirement: the model's name or the key is missing.
        """
        if lacks := self.lacking(use, setup):
            raise MissingRequirement("; ".join(lacks), where=setup.node)
        headers = dict(self.headers)
        if self.api_key_env:
            headers["Authorization"] = f"Bearer {os.environ[self.api_key_env]}"
        return Endpoint(
            str(self.base_url),
            headers,
            self.connect_timeout_s,
            self.first_token_timeout_s,
            self.between_tokens_timeout_s,
            self.retries,
        )
