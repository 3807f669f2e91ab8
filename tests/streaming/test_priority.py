"""Priorities: bounded by the key, they reach the queues of nodes, and keys share them evenly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ports import HOST, free_port
from serving import serving
from turnstile import Turnstile
from voicesite import make

from motet.components.errors import BadInput, MotetError
from motet.components.frames import Message, Prompt
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.access.auth import Principal, load_keys
from motet.streaming.access.ephemeral import Sealed
from motet.streaming.access.keyfile import StoredKey, add_key, digest, write_keys
from motet.streaming.access.secrets import secret_of
from motet.streaming.client import AsyncClient
from motet.streaming.settings import Settings

pytestmark = pytest.mark.timeout(60)


def key(name: str, **limits: Any) -> StoredKey:
    return StoredKey(name, digest(name), **limits)


@pytest.fixture
def grpc_port() -> int:
    return free_port()


@pytest.fixture
def address(tmp_path: Path, grpc_port: int) -> Iterator[str]:
    """A server of one node that takes one prompt at a time, its queue by priority."""
    keys = tmp_path / "keys.json"
    write_keys(
        keys,
        [
            key("flood"),
            key("plain"),
            key("paid", priority=1, max_priority=2),
            key("batch", priority=-2),
        ],
    )
    llm = {"use": "turnstile:Turnstile", "queue": {"order": "priority"}}
    spec = {"name": "chat", "nodes": {"llm": llm}, "edges": ["input -> llm -> output"]}
    graph = build(PipelineSpec.model_validate(spec))
    Turnstile.served.clear()
    Turnstile.gate.clear()
    with serving(graph, keys_file=keys, host=HOST, grpc_port=grpc_port, data_dir=tmp_path) as at:
        yield at


@pytest.fixture
async def http(address: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        yield client


async def ask(http: httpx.AsyncClient, who: str, priority: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {who}"}
    headers |= {"motet-priority": priority} if priority is not None else {}
    body = {"model": "chat", "messages": [{"role": "user", "content": "?"}]}
    return await http.post("/v1/chat/completions", json=body, headers=headers)


async def waiting(http: httpx.AsyncClient, count: int) -> None:
    """Until so many runs wait behind the one that is held."""
    headers = {"authorization": "Bearer plain"}
    async with asyncio.timeout(20):
        while True:
            status = (await http.get("/v1/status", headers=headers)).json()
            node = status["pipelines"][0]["nodes"][0]
            if node["active"] == 1 and node["queued"] == count:
                return
            await asyncio.sleep(0.01)


async def test_the_higher_priority_goes_first_over_every_door(
    http: httpx.AsyncClient, grpc_port: int
) -> None:
    async with (
        AsyncClient(f"{HOST}:{grpc_port}", key="plain", priority=-1) as low,
        AsyncClient(f"{HOST}:{grpc_port}", key="paid", priority=2) as high,
    ):
        tasks: list[asyncio.Task[Any]] = []

        async def over_grpc(client: AsyncClient) -> None:
            prompt = Prompt((Message("user", "?"),), spoken=False)
            async for _ in client.chat(prompt, model="chat"):
                pass

        for count, work in enumerate(
            (
                ask(http, "flood"),
                ask(http, "batch"),
                over_grpc(low),
                ask(http, "plain"),
                ask(http, "paid"),
                over_grpc(high),
            )
        ):
            tasks.append(asyncio.create_task(work))  # type: ignore[arg-type]
            await waiting(http, count)
        Turnstile.gate.set()
        await asyncio.gather(*tasks)
    assert Turnstile.served == [
        ("flood", 0),
        ("paid", 2),
        ("paid", 1),
        ("plain", 0),
        ("plain", -1),
        ("batch", -2),
    ]


async def test_a_flood_of_one_key_leaves_another_of_the_same_priority_its_turns(
    http: httpx.AsyncClient,
) -> None:
    tasks = [asyncio.create_task(ask(http, "flood"))]
    await waiting(http, 0)
    tasks += [asyncio.create_task(ask(http, "flood")) for _ in range(12)]
    await waiting(http, 12)
    tasks += [asyncio.create_task(ask(http, "plain")) for _ in range(4)]
    await waiting(http, 16)
    Turnstile.gate.set()
    assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {200}
    assert [name for name, _ in Turnstile.served[1:9]].count("plain") == 4


@pytest.mark.parametrize("priority", ["3", "-101", "high", "", "1e1"])
async def test_more_than_the_key_may_have_is_refused(
    http: httpx.AsyncClient, priority: str
) -> None:
    answer = await ask(http, "paid", priority)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "motet-priority"
    assert "possible: -100 to 2" in error["message"]


async def test_more_than_the_key_may_have_is_refused_over_grpc(
    grpc_port: int, address: str
) -> None:
    del address
    async with AsyncClient(f"{HOST}:{grpc_port}", key="plain", priority=1) as client:
        with pytest.raises(MotetError, match="possible: -100 to 0"):
            await client.embed(["x"])


def test_keys_without_a_priority_may_only_ask_for_less(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    secret = add_key(file, "plain")
    found = load_keys(Settings(keys_file=file, api_keys=("environment",)))
    principal = found.check(secret)
    assert principal.asking(None).priority == 0
    assert principal.asking("-3").priority == -3
    with pytest.raises(BadInput, match="possible: -100 to 0"):
        principal.asking("1")
    assert found.check("environment").asking("100").priority == 100
    assert Principal().asking("7").priority == 7, "on a machine of one's own anything goes"


async def test_a_browsers_key_has_at_most_the_priority_it_was_made_with(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    write_keys(file, [key("me", priority=1, max_priority=5, admin=True)])
    server = make(keys_file=file)
    maker = server.keys.check("me").asking("2")
    assert maker.admin
    far = int(time.time()) + 60
    sealed = Sealed(
        maker=maker.key_id, priority=2, model=None, kind="realtime", session={}, expires_at=far
    )
    secret = await server.ephemeral.make(sealed)
    found = (await secret_of(server, secret)).principal
    assert (found.name, found.admin) == ("me", False)
    assert found.asking(None).priority == 2
    assert found.asking("0").priority == 0
    with pytest.raises(BadInput, match="possible: -100 to 2"):
        found.asking("3")
    write_keys(file, [key("me", priority=1)])
    found = (await secret_of(server, secret)).principal
    assert (found.priority, found.max_priority) == (1, 1), "the key may have no more now"


def test_admins_are_those_that_were_made_so(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    made = {name: add_key(file, name, {"admin": name == "root"}) for name in ("root", "user")}
    ring = load_keys(Settings(keys_file=file, api_keys=("a",), admin_keys=("b",)))
    admins = {name: ring.check(secret).admin for name, secret in made.items()}
    assert admins == {"root": True, "user": False}
    assert not ring.check("a").admin
    assert ring.check("b").admin
    assert ring.check("b").name == "admin-1"
    assert load_keys(Settings()).check(None).admin, "this machine's own"
