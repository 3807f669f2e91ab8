"""Reloads and canaries of a real server, over its doors: no session lost, nothing half done."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from ports import HOST, free_port
from serving import serving
from voicespec import voice_spec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from motet.components.frames import Message, Prompt, TextDelta
from motet.pipelines import load
from motet.streaming.client import AsyncClient

pytestmark = pytest.mark.timeout(60)
ENGINES = "motet.streaming.bench.engines"


def write(folder: Path, name: str = "talk", *, file: str = "", **llm: Any) -> Path:
    """A voice pipeline whose model says what it is told to; `llm` are its options."""
    uses = {"asr": f"{ENGINES}:Hear", "tts": f"{ENGINES}:Say"}
    spec = voice_spec(name, llm={"use": f"{ENGINES}:Answer", "options": llm}, **uses)
    path = folder / (file or f"{name}.yaml")
    path.write_text(yaml.safe_dump(spec))
    return path


@pytest.fixture
def grpc_port() -> int:
    return free_port()


@pytest.fixture
def address(tmp_path: Path, grpc_port: int) -> Iterator[str]:
    """A server of two pipelines that say "Old."; only an admin's key may change it."""
    graphs = [load(write(tmp_path, name, text="Old.")) for name in ("talk", "more")]
    keys = {"api_keys": ("user",), "admin_keys": ("admin",)}
    with serving(*graphs, host=HOST, grpc_port=grpc_port, data_dir=tmp_path, **keys) as at:
        yield at


@asynccontextmanager
async def asking(address: str, key: str = "admin") -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=30) as http:
        yield http


async def said(http: httpx.AsyncClient, model: str = "talk") -> str:
    body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
    answer = await http.post("/v1/chat/completions", json=body)
    if answer.status_code != 200:
        return f"{answer.status_code}"
    return answer.json()["choices"][0]["message"]["content"].strip()


async def versions(http: httpx.AsyncClient, name: str = "talk") -> list[dict[str, Any]]:
    found = (await http.get("/v1/status")).json()["pipelines"]
    return next(one["versions"] for one in found if one["name"] == name)


async def until_alone(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        while len(await versions(http)) > 1:  # noqa: ASYNC110 - another process' doing
            await asyncio.sleep(0.02)


async def heard(socket: Any) -> str:
    """What the model says in a conversation."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "?"}]}
    await socket.send(json.dumps({"type": "conversation.item.create", "item": item}))
    await socket.send(json.dumps({"type": "response.create"}))
    text = ""
    while (event := json.loads(await socket.recv()))["type"] != "response.done":
        if event["type"] == "response.output_audio_transcript.delta":
            text += event["delta"]
    assert event["response"]["status"] == "completed"
    return text.strip()


async def test_every_door_follows_a_reload_and_open_sessions_stay(
    address: str, grpc_port: int, tmp_path: Path
) -> None:
    url = address.replace("http", "ws") + "/v1/realtime?model=talk"
    key = {"authorization": "Bearer user"}
    prompt = Prompt((Message("user", "?"),), spoken=False)
    async with (
        asking(address) as http,
        AsyncClient(f"{HOST}:{grpc_port}", key="user") as grpc,
        connect(url, additional_headers=key) as before,
    ):
        await before.recv()
        assert await heard(before) == await said(http) == "Old."
        write(tmp_path, text="New.")
        told = await http.post("/v1/admin/reload", json={})
        assert told.json()["pipelines"] == {"talk": "version 2", "more": "unchanged"}
        assert await said(http) == "New."
        assert await said(http, "more") == "Old."
        words = [frame async for frame in grpc.chat(prompt, model="talk")]
        assert "".join(one.text for one in words if isinstance(one, TextDelta)).strip() == "New."
        async with connect(url, additional_headers=key) as after:
            await after.recv()
            assert await heard(after) == "New."
        assert await heard(before) == "Old.", "the session has changed its version"
        assert [one["role"] for one in await versions(http)] == ["stable", "retiring"]
        await before.close()
        await until_alone(http)


async def test_faults_of_every_file_are_told_and_nothing_changes(
    address: str, tmp_path: Path
) -> None:
    write(tmp_path, text="New.", speed=3)
    write(tmp_path, "more", file="more.yaml").write_text("name: more\nnodes: {}\nedges: []\n")
    async with asking(address) as http:
        answer = await http.post("/v1/admin/reload", json={})
        assert answer.status_code == 400
        message = answer.json()["error"]["message"]
        assert "talk.yaml:" in message
        assert "nodes.llm.options.speed: unknown key" in message
        assert "more.yaml" in message
        assert "a pipeline needs at least one node" in message
        assert await said(http) == "Old."
        assert [one["version"] for one in await versions(http)] == ["1"]


async def test_what_does_not_load_takes_none_of_the_others_along(
    address: str, tmp_path: Path
) -> None:
    write(tmp_path, text="New.")
    spec = yaml.safe_load((tmp_path / "more.yaml").read_text())
    spec["nodes"]["llm"] = {"use": "unloadable:Answer"}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(spec))
    async with asking(address) as http:
        answer = await http.post("/v1/admin/reload", json={})
        assert answer.status_code == 501
        assert "no weights" in answer.json()["error"]["message"]
        assert await said(http) == "Old.", "talk was changed though more couldn't be"
        one = await http.post("/v1/admin/reload", json={"pipelines": ["talk"]})
        assert one.json()["pipelines"] == {"talk": "version 3"}
        missing = await http.post("/v1/admin/reload", json={"pipelines": ["tlak"]})
        assert missing.status_code == 400
        assert "did you mean 'talk'?" in missing.json()["error"]["message"]


async def test_a_session_past_the_drain_deadline_is_told_to_come_back(
    address: str, tmp_path: Path
) -> None:
    url = address.replace("http", "ws") + "/v1/realtime?model=talk"
    key = {"authorization": "Bearer user"}
    async with asking(address) as http, connect(url, additional_headers=key) as talk:
        await talk.recv()
        write(tmp_path, text="New.")
        await http.post("/v1/admin/reload", json={"drain_s": 0})
        with pytest.raises(ConnectionClosed):
            while True:
                await talk.recv()
        assert (talk.close_code, talk.close_reason) == (1012, "There is a new version.")
        await until_alone(http)
        async with connect(url, additional_headers=key) as again:
            await again.recv()
            assert await heard(again) == "New."


async def test_a_canary_from_start_to_promotion(address: str, tmp_path: Path) -> None:
    write(tmp_path, file="next.yaml", text="New.")
    async with asking(address) as http:
        begun = await http.post(
            "/v1/admin/pipelines/talk/canary", json={"file": "next.yaml", "share": 0.25}
        )
        assert begun.status_code == 200
        counted = Counter([await said(http) for _ in range(40)])
        assert 9 <= counted["New."] <= 11
        _, canary = await versions(http)
        assert (canary["role"], canary["share"], canary["runs"]) == (
            "canary",
            0.25,
            counted["New."],
        )
        assert canary["file"] == str(tmp_path / "next.yaml")
        assert [node["node"] for node in canary["nodes"]] == ["llm"], "what is the same is shared"
        text = (await http.get("/metrics")).text
        runs = 'motet_version_runs_total{outcome="ok",pipeline="talk",version="2"}'
        assert f"{runs} {float(counted['New.'])}" in text
        assert 'motet_version_share{pipeline="talk",role="canary",version="2"} 0.25' in text
        assert 'motet_node_replicas{node="llm",pipeline="talk",target="",version="2"} 1.0' in text
        assert text.count('motet_node_replicas{node="asr",pipeline="talk"') == 1
        write(tmp_path, text="Other.")
        refused = await http.post("/v1/admin/reload", json={"pipelines": ["talk"]})
        assert refused.status_code == 409
        await http.patch("/v1/admin/pipelines/talk/canary", json={"share": 1})
        assert {await said(http) for _ in range(5)} == {"New."}
        await http.post("/v1/admin/pipelines/talk/canary/promote", json={})
        await until_alone(http)
        assert await said(http) == "New."
        write(tmp_path, file="next.yaml", text="Newer.")
        await http.post("/v1/admin/reload", json={})
        assert await said(http) == "Newer.", "the promoted file is the one that is read again"


async def test_a_canary_that_fails_is_called_off(address: str, tmp_path: Path) -> None:
    write(tmp_path, text="New.", fail=True)
    async with asking(address) as http:
        spec = {"share": 0.5, "min_runs": 4, "max_fault_rate": 0.1}
        await http.post("/v1/admin/pipelines/talk/canary", json=spec)
        counted = Counter([await said(http) for _ in range(30)])
        assert counted == {"Old.": 26, "500": 4}
        await until_alone(http)
        found = (await http.get("/v1/status")).json()["pipelines"]
        events = [event["text"] for one in found for event in one["events"]]
        assert any("called off: 4 of 4 runs failed" in text for text in events)
        none = await http.post("/v1/admin/pipelines/talk/canary/promote", json={})
        assert none.status_code == 409


@pytest.mark.parametrize("file", ["../talk.yaml", "/etc/passwd", "nothing.yaml", "."])
async def test_a_canary_reads_only_files_beside_the_served_one(address: str, file: str) -> None:
    async with asking(address) as http:
        answer = await http.post("/v1/admin/pipelines/talk/canary", json={"file": file})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "file"


async def test_a_canary_that_serves_others_is_refused(address: str, tmp_path: Path) -> None:
    (tmp_path / "next.yaml").write_text(
        f"name: talk\nnodes: {{llm: {{use: '{ENGINES}:Answer'}}}}\n"
        "edges: [input -> llm -> output]\n"
    )
    async with asking(address) as http:
        answer = await http.post("/v1/admin/pipelines/talk/canary", json={"file": "next.yaml"})
        assert answer.status_code == 400
        assert "it takes no Audio" in answer.json()["error"]["message"]
        assert len(await versions(http)) == 1
        write(tmp_path, text="New.")
        assert (await http.post("/v1/admin/reload", json={})).status_code == 200


async def test_only_admins_change_what_is_served(address: str) -> None:
    for key, status, code in (("user", 403, "permission_denied"), ("x", 401, "invalid_api_key")):
        async with asking(address, key) as http:
            for answer in (
                await http.post("/v1/admin/reload", json={}),
                await http.post("/v1/admin/pipelines/talk/canary", json={}),
                await http.patch("/v1/admin/pipelines/talk/canary", json={"share": 1}),
                await http.post("/v1/admin/pipelines/talk/canary/abort", json={}),
            ):
                assert answer.status_code == status
                assert answer.json()["error"]["code"] == code


async def test_requests_that_wait_out_a_reload_are_answered(address: str, tmp_path: Path) -> None:
    """Constant load through ten reloads: no answer but 200."""
    async with asking(address) as http:
        stop = asyncio.Event()

        async def load_it() -> Counter[str]:
            seen: Counter[str] = Counter()
            while not stop.is_set():
                seen[await said(http)] += 1
            return seen

        tasks = [asyncio.create_task(load_it()) for _ in range(4)]
        for number in range(10):
            write(tmp_path, text=f"{number}.", delay_s=0.01)
            assert (await http.post("/v1/admin/reload", json={})).status_code == 200
        stop.set()
        total = sum((await asyncio.gather(*tasks)), Counter[str]())
    assert set(total) <= {"Old.", *(f"{number}." for number in range(10))}
    assert len(total) > 2
