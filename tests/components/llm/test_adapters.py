"""A prompt's adapter: the name that a server knows it by, or a refusal that says what is known."""

from __future__ import annotations

import json

import httpx
import pytest
from running import ask

from motet.components.base import Setup
from motet.components.errors import BadInput
from motet.components.frames import Message, Prompt
from motet.components.llm.chat import check_adapter
from motet.components.llm.remote import RemoteLlm


async def asked_model(adapter: str | None) -> str:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content)["model"])
        choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice]})

    options = {"base_url": "http://x/v1", "adapters": {"legal": "base-legal-v2"}}
    llm = RemoteLlm(Setup("llm", "base", options), transport=httpx.MockTransport(handler))
    await llm.load()
    try:
        await ask(llm, Prompt((Message("user", "Hi"),), adapter=adapter))
    finally:
        await llm.close()
    return asked[0]


async def test_a_remote_server_is_asked_for_the_adapter() -> None:
    assert await asked_model(None) == "base"
    assert await asked_model("legal") == "base-legal-v2"
    with pytest.raises(BadInput, match="did you mean 'legal'"):
        await asked_model("legall")


def test_engines_without_adapters_say_so() -> None:
    check_adapter(Prompt(()), where="llm")
    with pytest.raises(BadInput, match="'x': this node has none"):
        check_adapter(Prompt((), adapter="x"), where="llm")
