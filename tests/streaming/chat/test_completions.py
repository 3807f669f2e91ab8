"""`/v1/chat/completions` as clients use it, on the real model; faults on engines made for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import rpcfakes
from serving import serving

from motet.pipelines import build, load
from motet.pipelines.graph import Graph
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

ASK = {"role": "user", "content": "What is the capital of France? Answer with one word."}


def answering(**options: object) -> Graph:
    use = "motet.streaming.bench.engines:Answer"
    node = {"use": use, "options": options}
    spec = {"name": "chat", "nodes": {"llm": node}, "edges": ["input -> llm -> output"]}
    return build(PipelineSpec.model_validate(spec))


@asynccontextmanager
async def client_of(graph: Graph) -> AsyncIterator[httpx.AsyncClient]:
    server = Server.make([graph], Settings())
    app = create_app(server)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield http


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


async def test_whole_and_streamed_answers_say_the_same() -> None:
    async with client_of(answering(text="One two three.")) as http:
        body = {"model": "gpt-4o", "messages": [ASK], "n": 2}
        whole = (await http.post("/v1/chat/completions", json=body)).json()
        said = [choice["message"]["content"] for choice in whole["choices"]]
        options = {"stream": True, "stream_options": {"include_usage": True}}
        streamed = events((await http.post("/v1/chat/completions", json=body | options)).text)
    assert said == ["One two three. "] * 2
    assert whole["model"] == "chat"
    assert streamed[-1] == "[DONE]"
    assert streamed[-2]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    for index in (0, 1):
        choices = [e["choices"][0] for e in streamed[:-2] if e["choices"][0]["index"] == index]
        assert "".join(c["delta"].get("content", "") for c in choices) == "One two three. "
        assert choices[-1]["finish_reason"] == "stop"


def test_the_first_words_come_while_the_rest_is_made() -> None:
    spec = {
        "name": "chat",
        "nodes": {"llm": {"use": "rpcfakes:Brain"}},
        "edges": ["input -> llm -> output"],
    }
    graph = build(PipelineSpec.model_validate(spec))
    body = {"messages": [{"role": "user", "content": "wait"}], "stream": True}
    with serving(graph) as address:
        said = ""
        with httpx.stream("POST", f"{address}/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()  # dropped, it would hang up
            for line in lines:
                if line.startswith("data:"):
                    said += json.loads(line[5:])["choices"][0]["delta"].get("content") or ""
                if said == "wait":
                    break
            assert rpcfakes.Brain.running == 1, "it has not ended, and never will"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": []}, "messages"),
        ({"temprature": 1}, "temprature"),
        ({"temperature": 3}, "temperature"),
        ({"top_logprobs": 3}, "needs logprobs"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "not both"),
        ({"stream_options": {}}, "needs stream"),
        ({"response_format": {"type": "xml"}}, "json_schema"),
        ({"tool_choice": {"type": "function"}}, "no tool choice"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "smell"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "https://127.0.0.1/a.png"}}
                        ],
                    }
                ]
            },
            "is this machine",
        ),
    ],
)
async def test_bad_requests_say_what_is_possible(change: dict[str, Any], said: str) -> None:
    async with client_of(answering()) as http:
        body = {"messages": [ASK]} | change
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


async def test_a_fault_is_an_error_before_the_first_byte() -> None:
    async with client_of(answering(fail=True)) as http:
        for stream in (False, True):
            body = {"messages": [ASK], "stream": stream}
            answer = await http.post("/v1/chat/completions", json=body)
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "component_failed"


@pytest.mark.slow
async def test_the_real_model_answers_and_calls_tools() -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
    async with client_of(load("chat")) as http:
        body = {"messages": [ASK], "temperature": 0, "max_tokens": 12, "seed": 1}
        answer = (await http.post("/v1/chat/completions", json=body)).json()
        assert "Paris" in answer["choices"][0]["message"]["content"]
        assert answer["usage"]["prompt_tokens"] > 10
        body = {
            "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
            "tools": [tool],
            "tool_choice": "required",
            "temperature": 0,
        }
        choice = (await http.post("/v1/chat/completions", json=body)).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    call = choice["message"]["tool_calls"][0]["function"]
    assert call["name"] == "get_weather"
    assert isinstance(json.loads(call["arguments"])["city"], str)


WRONG: list[tuple[str, Any]] = [
    ("response_format", {"type": "json_schema", "json_schema": "x"}),
    ("response_format", {"type": "json_schema", "json_schema": None}),
    ("response_format", {"type": "json_schema"}),
    ("response_format", {"type": ["json_schema"]}),
    ("tool_choice", {"type": "function", "function": "x"}),
    ("tool_choice", {"type": "function", "function": None}),
    ("tool_choice", {"type": "function"}),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": None}]}]),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": {"a": 1}}]}]),
    ("messages", [{"role": "user", "content": [{"type": ["text"]}]}]),
    ("seed", 10**30),
    ("max_tokens", 10**30),
    ("stop", ""),
    ("stop", [""]),
    ("stop", ["x"] * 65),
]


async def test_each_is_a_400_that_names_the_field() -> None:
    async with client_of(answering()) as http:
        for field, value in WRONG:
            body = {"model": "chat", "messages": [ASK], field: value}
            got = await http.post("/v1/chat/completions", json=body)
            assert got.status_code == 400, (field, value, got.text)
            assert field in got.json()["error"]["message"], (field, value)


@pytest.mark.parametrize("head", [b"[" * 100_000, b'{"a":' * 100_000], ids=["list", "object"])
async def test_deep_json_is_a_400(head: bytes) -> None:
    async with client_of(answering()) as http:
        got = await http.post("/v1/chat/completions", content=head)
        assert got.status_code == 400
