"""The WebSocket around the protocol, on a real socket: keys, limits, ends."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from caller import Caller, calling
from serving import listening
from voicesite import Event, closing, make, voice
from websockets.asyncio.client import connect

from motet.streaming.app import create_app
from motet.streaming.bench.sockets import InProcess, Refused
from motet.streaming.realtime import driver
from motet.streaming.server import Server

MANUAL = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
HALF_A_SECOND = base64.b64encode(bytes(24_000)).decode()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening(create_app(make())) as at:
        yield at


async def ask(caller: Caller) -> None:
    """Push to talk: half a second, commit, and a response."""
    await caller.send("session.update", session=MANUAL)
    await caller.send("input_audio_buffer.append", audio=HALF_A_SECOND)
    await caller.send("input_audio_buffer.commit")
    await caller.send("response.create")


async def emptied(server: Server) -> None:
    """Wait until no session is left."""
    for _ in range(500):
        if not server.pipelines["fake"].sessions:
            return
        await asyncio.sleep(0.01)
    pytest.fail("a session is left")


async def test_audio_sent_with_the_first_breath_is_answered(address: str) -> None:
    async with calling(address) as caller:
        await ask(caller)
        done = await caller.until("response.done")
    assert done["response"]["status"] == "completed"
    assert caller.kinds()[:2] == ["session.created", "session.updated"]
    assert len(caller.audio()) == 2 * 19_200, "two sentences of 800 ms"
    completed = "conversation.item.input_audio_transcription.completed"
    assert [e["transcript"] for e in caller.events if e["type"] == completed] == ["hello there"]


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [([], None), (["realtime", "openai-insecure-api-key.k"], "realtime"), (["x"], None)],
)
async def test_the_subprotocol_is_chosen_only_when_offered(
    address: str, offered: list[str], chosen: str | None
) -> None:
    url = address.replace("http", "ws") + "/v1/realtime"
    async with connect(url, subprotocols=offered or None) as socket:  # pyright: ignore[reportArgumentType]
        assert socket.subprotocol == chosen
        assert json.loads(await socket.recv())["type"] == "session.created"


async def test_keys_come_by_header_by_subprotocol_or_not_at_all() -> None:
    with listening(create_app(make(api_keys=("k",)))) as at:
        url = at.replace("http", "ws") + "/v1/realtime?model=any"
        code, _, events = await closing(url)
        assert (code, events[0]["error"]["code"]) == (1008, "invalid_api_key")
        async with connect(url, additional_headers={"authorization": "Bearer k"}) as socket:
            assert json.loads(await socket.recv())["type"] == "session.created"
        named = ["realtime", "openai-insecure-api-key.k"]
        async with connect(url, subprotocols=named) as socket:  # pyright: ignore[reportArgumentType]
            assert json.loads(await socket.recv())["type"] == "session.created"


async def test_a_foreign_page_is_turned_away(address: str) -> None:
    url = address.replace("http", "ws") + "/v1/realtime"
    code, _, events = await closing(url, origin="https://evil.example")
    assert (code, events[0]["error"]["code"]) == (1008, "origin_not_allowed")


@pytest.mark.parametrize(
    ("query", "options", "code"),
    [
        ("", {"additional_headers": {"openai-beta": "realtime=v1"}}, "beta_api_shape_disabled"),
        ("", {"subprotocols": ["realtime", "openai-beta.realtime-v1"]}, "beta_api_shape_disabled"),
        ("?call_id=rtc_1", {}, "call_not_found"),
    ],
)
async def test_clients_that_would_wait_for_ever_are_told(
    address: str, query: str, options: dict[str, Any], code: str
) -> None:
    url = address.replace("http", "ws") + "/v1/realtime" + query
    closed, _, events = await closing(url, **options)
    assert (closed, events[0]["error"]["code"]) == (1008, code)


async def test_one_session_too_many_is_refused_at_once_and_the_place_comes_free() -> None:
    server = make(max_sessions=2)
    with listening(create_app(server)) as at:
        url = at.replace("http", "ws") + "/v1/realtime"
        async with calling(at) as first, calling(at) as second:
            await first.until("session.created")
            await second.until("session.created")
            code, reason, events = await closing(url)
            assert (code, events[0]["error"]["code"]) == (1013, "overloaded")
            assert "taken" in reason
            await ask(first)
            await first.until("response.done")
        await emptied(server)
        async with calling(at) as third:
            await third.until("session.created")


async def test_hanging_up_in_the_middle_leaves_nothing_behind() -> None:
    server = make(voice(delay_s=30))
    with listening(create_app(server)) as at:
        for _ in range(20):
            async with calling(at) as caller:
                await ask(caller)
                await caller.until("response.created")
                caller._socket.transport.abort()
        await emptied(server)
        text = server.metrics.text().decode()
        assert 'motet_sessions{door="realtime",pipeline="fake"} 0.0' in text


async def test_a_broken_model_fails_the_turn_and_the_session_goes_on() -> None:
    with listening(create_app(make(voice(fail=True)))) as at:
        async with calling(at) as caller:
            for count in (1, 2):
                await ask(caller)
                done = await caller.until("response.done", count)
                assert done["response"]["status"] == "failed"
                error = done["response"]["status_details"]["error"]
                assert error["code"] == "component_failed"
                assert "the model is gone" in error["message"]
    assert "error" not in caller.kinds()


async def test_a_stopping_server_asks_its_clients_to_come_back() -> None:
    server = make()
    app = create_app(server)
    async with app.router.lifespan_context(app):
        socket = InProcess(app, "/v1/realtime")
        assert json.loads(await socket.receive())["type"] == "session.created"
        server.stopping.set()
        with pytest.raises(Refused) as refused:
            await socket.receive()
        await socket.close()
        assert refused.value.code == 1012
        assert not server.pipelines["fake"].sessions


async def test_a_full_pipeline_refuses_too() -> None:
    limited = voice() | {"sessions": {"max_sessions": 1}}
    server = make(limited)
    app = create_app(server)
    async with app.router.lifespan_context(app):
        first, second = InProcess(app, "/v1/realtime"), InProcess(app, "/v1/realtime")
        await first.receive()
        assert json.loads(await second.receive())["error"]["code"] == "overloaded"
        with pytest.raises(Refused) as refused:
            await second.receive()
        assert refused.value.code == 1013
        await first.close()
        await second.close()


@pytest.mark.parametrize("overflow", ["block", "error"])
async def test_audio_that_the_pipeline_can_not_take_ends_in_1013_not_in_memory(
    monkeypatch: pytest.MonkeyPatch, overflow: str
) -> None:
    monkeypatch.setattr(driver, "FEED_LIMIT_S", 0.1)
    stuck = voice()
    stuck["nodes"]["asr"] = {"use": "toolfake:Deaf"}
    entry = {"input -> turn": {"overflow": overflow}}
    stuck["edges"] = [entry, "turn -> asr -> conversation", *stuck["edges"][1:]]
    server = make(stuck)
    app = create_app(server)
    async with app.router.lifespan_context(app):
        socket = InProcess(app, "/v1/realtime")
        await socket.send(json.dumps({"type": "session.update", "session": MANUAL}))
        append = {"type": "input_audio_buffer.append", "audio": HALF_A_SECOND}
        for _ in range(200):
            await socket.send(json.dumps(append))
        errors: list[Event] = []
        with pytest.raises(Refused) as refused:
            while True:
                errors.append(json.loads(await socket.receive()))
        await socket.close()
        assert refused.value.code == 1013
        assert errors[-1]["error"]["code"] == "overloaded"
        assert not server.pipelines["fake"].sessions
