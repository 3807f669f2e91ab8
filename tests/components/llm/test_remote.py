"""llm/remote: what it asks of a server, and what it makes of the answer."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from chatserver import HELLO, answering, sse
from pydantic import ValidationError
from running import ask

from motet.components.base import Setup
from motet.components.errors import MissingRequirement
from motet.components.frames import Clear, Completed, Message, Prompt, TextDelta, Voice
from motet.components.llm.remote import RemoteLlm, RemoteLlmOptions


async def test_prompts_are_answered_in_order_and_other_frames_pass() -> None:
    bodies: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        assert request.headers["x-team"] == "a"
        return httpx.Response(200, content=sse(f"answer {len(bodies)}"))

    async with answering(
        handler, temperature=0.3, max_tokens=9, headers={"x-team": "a"}, extra_body={"top_k": 5}
    ) as llm:
        second = Prompt((Message("user", "Again"),), temperature=0.9, spoken=False)
        voice, clear = Voice("x"), Clear()
        out = await ask(llm, voice, HELLO, clear, second)
    kinds = [type(frame) for frame in out]
    assert kinds == [Voice, TextDelta, Completed, Clear, TextDelta, Completed]
    assert out[1] == TextDelta("answer 1")
    assert out[4] == TextDelta("answer 2", spoken=False)
    assert [body["temperature"] for body in bodies] == [0.3, 0.9]
    assert all(body["max_tokens"] == 9 and body["top_k"] == 5 for body in bodies)


async def test_a_server_that_does_not_stream_is_read_too() -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with answering(lambda _: httpx.Response(200, json=whole)) as llm:
        out = await ask(llm, HELLO)
    assert [type(frame) for frame in out] == [TextDelta, Completed]


async def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup("llm", model="m", options={"base_url": "http://x/v1", "api_key_env": "A_KEY"})
    monkeypatch.delenv("A_KEY", raising=False)
    assert "A_KEY" in RemoteLlm.requirements(setup)[0]
    with pytest.raises(MissingRequirement, match="A_KEY"):
        await RemoteLlm(setup).load()
    monkeypatch.setenv("A_KEY", "secret")
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, content=sse("x"))

    async with answering(handler, api_key_env="A_KEY") as llm:
        await ask(llm, HELLO)
    assert seen == ["Bearer secret"]


def test_options_are_checked() -> None:
    with pytest.raises(ValidationError, match="base_url"):
        RemoteLlmOptions.model_validate({})
    with pytest.raises(ValidationError, match="tempo"):
        RemoteLlmOptions.model_validate({"base_url": "http://x/v1", "tempo": 1})
    setup = Setup("llm", options={"base_url": "http://x/v1"})
    assert "model" in RemoteLlm.requirements(setup)[0]
