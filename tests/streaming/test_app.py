"""The application's plain routes: health, readiness, metrics, status, errors in OpenAI's shape."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

ECHO = {
    "name": "echo",
    "nodes": {"a": {"use": "fakes:Echo"}},
    "edges": ["input -> a -> output"],
}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server.make([build(PipelineSpec.model_validate(ECHO))], Settings(api_keys=("k",)))
    async with server.pipelines["echo"]:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(server), raise_app_exceptions=False)
    headers = {"authorization": "Bearer k", "host": "localhost"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as http:
        yield http


async def test_the_description_is_here_and_no_page_loads_scripts_from_elsewhere(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.get("/openapi.json")).status_code == 200
    assert (await client.get("/docs")).status_code == 404


async def test_health_needs_no_key_and_readiness_follows_the_pipelines(
    client: httpx.AsyncClient, server: Server
) -> None:
    assert (await client.get("/healthz", headers={"authorization": ""})).status_code == 200
    assert (await client.get("/readyz")).json() == {"ready": True, "pipelines": {"echo": True}}
    server.stopping.set()
    assert (await client.get("/readyz")).status_code == 503


async def test_models_are_the_pipelines(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["echo"]
    missing = await client.get("/v1/models/ecko")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/status", "/metrics"])
async def test_a_wrong_key_is_a_401(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "authentication_error"
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_foreign_page_is_a_403(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/models", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


async def test_metrics_name_routes_by_pattern(client: httpx.AsyncClient) -> None:
    await client.get("/v1/models/secret-name")
    text = (await client.get("/metrics")).text
    assert 'route="/v1/models/{name}",status="404"' in text
    assert "secret-name" not in text
    assert 'motet_node_active{node="a",pipeline="echo",target="",version="1"} 0.0' in text


async def test_status_shows_nodes_and_edges(client: httpx.AsyncClient) -> None:
    pipeline = (await client.get("/v1/status")).json()["pipelines"][0]
    assert pipeline["nodes"][0]["replicas"][0]["state"] == "ready"
    assert pipeline["edges"] == [["input", "a"], ["a", "output"]]


async def test_unknown_paths_answer_in_the_same_shape(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/videos", "GET, POST"),
        ("POST", "/v1/models", "GET"),
        ("PUT", "/v1/embeddings", "POST"),
        ("POST", "/page/main.js", "GET, HEAD"),
    ],
)
async def test_a_method_that_a_path_lacks_is_told_those_it_has(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "a JSON body is needed"), (b"[]", "object"), (b"{bad", "JSON")]
)
async def test_a_body_that_is_none_is_told(
    client: httpx.AsyncClient, content: bytes, said: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/v1/embeddings", content=content, headers=headers)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] is None
