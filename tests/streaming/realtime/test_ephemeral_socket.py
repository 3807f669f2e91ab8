"""Ephemeral keys on a real server: what they begin, who knows them, what ends them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from openai.types.realtime import ClientSecretCreateResponse
from serving import listening
from voicesite import SECRET, closing, make
from websockets.asyncio.client import connect

from motet.streaming.access.ephemeral import MOST_CHARS
from motet.streaming.access.keyfile import add_key, remove_key
from motet.streaming.app import create_app

PATH = "/v1/realtime/client_secrets"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening(create_app(make())) as at:
        yield at


async def made(address: str, key: str | None = None, **session: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=address, headers=headers) as http:
        return await http.post(PATH, json={"session": session})


async def begun(address: str, key: str, query: str = "") -> dict[str, Any]:
    """The session that a browser begins with the key."""
    url = address.replace("http", "ws") + "/v1/realtime" + query
    names = ["realtime", "openai-insecure-api-key." + key]
    async with connect(url, subprotocols=names) as socket:  # pyright: ignore[reportArgumentType]
        event = json.loads(await socket.recv())
    assert event["type"] == "session.created", event
    return event["session"]


async def refused(address: str, key: str) -> dict[str, Any]:
    url = address.replace("http", "ws") + "/v1/realtime"
    headers = {"authorization": f"Bearer {key}"}
    code, _, events = await closing(url, additional_headers=headers)
    assert code == 1008
    return events[0]["error"]


async def test_an_ephemeral_key_begins_the_session_it_was_made_for() -> None:
    with listening(create_app(make(api_keys=("k",)))) as at:
        body = {
            "expires_after": {"anchor": "created_at", "seconds": 60},
            "session": {
                "type": "realtime",
                "instructions": "Sing.",
                "audio": {"output": {"format": {"type": "audio/pcmu"}}},
            },
        }
        async with httpx.AsyncClient(base_url=at) as http:
            path = "/v1/realtime/client_secrets"
            assert (await http.post(path, json=body)).status_code == 401
            headers = {"authorization": "Bearer k"}
            made = (await http.post(path, json=body, headers=headers)).json()
            wrong = {"session": {"audio": {"output": {"speed": 7}}}}
            answer = await http.post(path, json=wrong, headers=headers)
            assert answer.status_code == 400
            assert answer.json()["error"]["param"].endswith("speed")
            path = "/v1/realtime/transcription_sessions"
            older = (await http.post(path, json={}, headers=headers)).json()
        url = at.replace("http", "ws") + "/v1/realtime"
        names = ["realtime", "openai-insecure-api-key." + made["value"]]
        async with connect(url, subprotocols=names) as socket:  # pyright: ignore[reportArgumentType]
            session = json.loads(await socket.recv())["session"]
        key = {"authorization": "Bearer " + older["client_secret"]["value"]}
        async with connect(url, additional_headers=key) as socket:
            assert json.loads(await socket.recv())["session"]["type"] == "transcription"
    assert session["instructions"] == made["session"]["instructions"] == "Sing."
    assert session["audio"]["output"]["format"] == {"type": "audio/pcmu"}


@pytest.mark.parametrize("kind", ["realtime", "transcription"])
async def test_an_ephemeral_keys_answer_is_what_the_sdk_expects(address: str, kind: str) -> None:
    body = {"session": {"type": kind, "model": "gpt-realtime"}}
    async with httpx.AsyncClient(base_url=address) as http:
        made = (await http.post("/v1/realtime/client_secrets", json=body)).json()
    parsed = ClientSecretCreateResponse.model_validate(made)
    assert parsed.session.type == kind
    assert 0 < made["expires_at"] - time.time() <= 600


async def test_the_betas_flat_settings_are_understood(address: str) -> None:
    body = {
        "model": "gpt-4o-realtime-preview",
        "modalities": ["text"],
        "voice": "verse",
        "input_audio_format": "g711_ulaw",
        "turn_detection": None,
        "max_response_output_tokens": 50,
    }
    async with httpx.AsyncClient(base_url=address) as http:
        made = (await http.post("/v1/realtime/sessions", json=body)).json()
    assert {name: made[name] for name in body} == body | {"model": "fake"}
    assert made["client_secret"]["value"].startswith("ek_")


async def test_every_gateway_with_the_secret_knows_a_key_and_no_other_does(tmp_path: Path) -> None:
    tools = [{"type": "function", "name": "lamp", "parameters": {"type": "object"}}]
    wish = {
        "instructions": "Sing.",
        "tools": tools,
        "tool_choice": "required",
        "audio": {"input": {"turn_detection": None}, "output": {"voice": "x", "speed": 1.5}},
    }
    with listening(create_app(make(api_keys=("k",)))) as first:
        answer = (await made(first, "k", **wish)).json()
    old = (SECRET + " of later", SECRET)
    for secrets in ((SECRET,), old):
        with listening(create_app(make(api_keys=("k",), ephemeral_secret=secrets))) as second:
            session = await begun(second, answer["value"])
        told = answer["session"]
        for name in ("instructions", "tools", "tool_choice", "audio", "model"):
            assert session[name] == told[name]
        assert session["audio"]["input"]["turn_detection"] is None
    others = make(api_keys=("k",), ephemeral_secret=(), data_dir=tmp_path)
    with listening(create_app(others)) as third:
        assert "another secret" in (await refused(third, answer["value"]))["message"]


async def test_a_key_of_a_key_that_is_removed_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    alice, bob = add_key(file, "alice"), add_key(file, "bob", {"admin": True})
    with listening(create_app(make(keys_file=file))) as at:
        values = {
            name: (await made(at, key)).json()["value"] for name, key in (("a", alice), ("b", bob))
        }
        await begun(at, values["a"])
        remove_key(file, "alice")
        add_key(file, "alice")
        error = await refused(at, values["a"])
        assert (error["code"], "gone" in error["message"]) == ("invalid_api_key", True)
        await begun(at, values["b"])
        async with httpx.AsyncClient(base_url=at) as http:
            headers = {"authorization": "Bearer " + values["b"]}
            for answer in (
                await http.get("/v1/models", headers=headers),
                await http.post("/v1/admin/reload", json={}, headers=headers),
                await http.post(PATH, json={}, headers=headers),
            ):
                assert answer.status_code == 401
                assert "/v1/realtime alone" in answer.json()["error"]["message"]


async def test_limits_are_those_that_the_key_has_when_the_ephemeral_key_is_used(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "alice")
    with listening(create_app(make(keys_file=file))) as at:
        value = (await made(at, key)).json()["value"]
        await begun(at, value)
        stored = json.loads(file.read_text())
        stored[0]["max_sessions"] = 0
        file.write_text(json.dumps(stored))
        url = at.replace("http", "ws") + "/v1/realtime"
        code, _, events = await closing(url, additional_headers={"api-key": value})
        assert (code, events[0]["error"]["code"]) == (1013, "overloaded")


async def test_a_key_that_is_none_is_not_taken_for_nobody(address: str) -> None:
    error = await refused(address, "ek_nonsense")
    assert error["code"] == "invalid_api_key"
    await begun(address, "nonsense")


@pytest.mark.parametrize(("length", "fits"), [(7_100, True), (7_500, False), (250_000, False)])
async def test_the_longest_settings_that_fit_arrive_and_longer_ones_are_refused(
    address: str, length: int, fits: bool
) -> None:
    noise = base64.b64encode(Random(7).randbytes(length)).decode()[:length]
    answer = await made(address, instructions=noise)
    if fits:
        value = answer.json()["value"]
        assert MOST_CHARS - 300 < len(value) <= MOST_CHARS
        assert (await begun(address, value))["instructions"] == noise
        return
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "session"
    assert "session.update" in answer.json()["error"]["message"]
