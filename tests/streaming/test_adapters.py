"""Adapters by the model's name, as clients of vLLM ("adapter") and SGLang ("model:adapter") do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from motet.pipelines import build
from motet.pipelines.graph import Graph
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings


def graph(name: str, **adapters: str) -> Graph:
    node = {"use": "adapterfake:Adapted", "options": {"adapters": adapters}}
    spec = {"name": name, "nodes": {"llm": node}, "edges": ["input -> llm -> output"]}
    return build(PipelineSpec.model_validate(spec))


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    graphs = [graph("small"), graph("chat", legal="a", medical="b")]
    app = create_app(Server.make(graphs, Settings()))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def ask(http: httpx.AsyncClient, **body: Any) -> Any:
    messages = [{"role": "user", "content": "x"}]
    return (await http.post("/v1/chat/completions", json={"messages": messages, **body})).json()


@pytest.mark.parametrize(
    ("body", "model", "adapter"),
    [
        ({"model": "chat"}, "chat", "None"),
        ({"model": "chat:legal"}, "chat:legal", "legal"),
        ({"model": "medical"}, "chat:medical", "medical"),
        ({"model": "chat", "adapter": "legal"}, "chat:legal", "legal"),
        ({"model": "chat:legal", "adapter": "legal"}, "chat:legal", "legal"),
        ({"model": "gpt-4o"}, "small", "None"),
        ({"model": "ft:gpt-4o:me"}, "small", "None"),
    ],
)
async def test_a_models_name_may_name_its_adapter(
    http: httpx.AsyncClient, body: dict[str, Any], model: str, adapter: str
) -> None:
    answer = await ask(http, **body)
    assert answer["model"] == model
    assert answer["choices"][0]["message"]["content"] == adapter


async def test_two_adapters_at_once_are_refused(http: httpx.AsyncClient) -> None:
    answer = await ask(http, model="chat:legal", adapter="medical")
    assert "give one" in answer["error"]["message"]


async def test_adapters_are_listed_with_their_pipeline(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/v1/models")).json()["data"]
    assert [one["id"] for one in listed] == ["small", "chat", "chat:legal", "chat:medical"]
    assert (await http.get("/v1/models/chat:legal")).json()["id"] == "chat:legal"
    assert (await http.get("/v1/models/chat:none")).status_code == 404
