"""`/v1/embeddings` by the official client and by hand."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from openai import BadRequestError, OpenAI
from serving import serving
from tokenizers import Tokenizer

from motet.components.models import locate
from motet.pipelines import Pipeline, load
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Server.make([load("embed")], Settings()))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def test_float_and_base64_say_the_same(http: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"input": ["one", "two"], "model": "text-embedding-3-small"}
    plain = (await http.post("/v1/embeddings", json=body)).json()
    coded = (await http.post("/v1/embeddings", json=body | {"encoding_format": "base64"})).json()
    assert [item["index"] for item in plain["data"]] == [0, 1]
    assert plain["usage"]["prompt_tokens"] == plain["usage"]["total_tokens"] == 6
    for one, other in zip(plain["data"], coded["data"], strict=True):
        decoded = np.frombuffer(base64.b64decode(other["embedding"]), "<f4")
        np.testing.assert_allclose(one["embedding"], decoded, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": []}, "1 to 2048"),
        ({"input": [""]}, "empty"),
        ({"input": "x", "dimensions": 0}, "dimensions"),
        ({"input": "x", "dimensions": 1000}, "has 384"),
        ({"input": "word " * 600}, "takes 256"),
        ({"input": "x", "colour": "red"}, "colour"),
        ({"input": [1, 2, 10**7]}, "tokens are"),
    ],
)
async def test_bad_requests_are_400s(
    http: httpx.AsyncClient, body: dict[str, Any], said: str
) -> None:
    answer = await http.post("/v1/embeddings", json=body)
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] != ""
    assert said in message
    assert not message.startswith(":")
    assert "Value error" not in message
    assert "embed: embed:" not in message


def test_the_official_client_embeds() -> None:
    tokens = Tokenizer.from_file(str(locate("all-minilm-l6-v2") / "tokenizer.json"))
    tokens.no_padding()
    texts = ["hello there", "a second text"]
    arrays = [tokens.encode(text).ids for text in texts]
    with serving(load("embed")) as address:
        client = OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)

        def vectors(given: Any, **options: Any) -> np.ndarray[Any, Any]:
            answer = client.embeddings.create(model="embed", input=given, **options)
            assert [one.index for one in answer.data] == list(range(len(answer.data)))
            assert answer.usage.prompt_tokens > 0
            return np.array([one.embedding for one in answer.data])

        coded = vectors(texts)
        assert coded.shape == (2, 384)
        np.testing.assert_allclose(vectors(texts, encoding_format="float"), coded, atol=1e-6)
        np.testing.assert_allclose(vectors(arrays), coded, atol=1e-6)
        np.testing.assert_allclose(vectors(arrays[0]), coded[:1], atol=1e-6)
        short = vectors(texts, dimensions=128)
        cut = coded[:, :128] / np.linalg.norm(coded[:, :128], axis=1, keepdims=True)
        np.testing.assert_allclose(short, cut, atol=1e-6)
        long = "word " * 600
        with pytest.raises(BadRequestError, match="takes 256"):
            vectors(long)
        assert vectors(long, extra_body={"truncate": True}).shape == (1, 384)


async def test_hanging_up_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def endless(*frames: Any, **options: Any) -> AsyncIterator[Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
            yield None
        finally:
            over.set()

    monkeypatch.setattr(Pipeline, "ask", endless)
    body = iter([{"type": "http.request", "body": b'{"input": "x"}'}])

    async def receive() -> Any:
        if (said := next(body, None)) is not None:
            return said
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        del message

    head = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/embeddings", "headers": head}
    scope |= {"query_string": b"", "scheme": "http", "server": ("localhost", 80)}
    app = create_app(Server.make([load("embed")], Settings()))
    async with asyncio.timeout(5):
        await app(scope, receive, send)
    assert over.is_set()
