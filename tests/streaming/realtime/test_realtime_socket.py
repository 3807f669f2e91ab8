"""The WebSocket around the protocol, on a real socket: keys, limits, ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from caller import Caller, calling
from openai.types.realtime import ClientSecretCreateResponse
from serving import listening
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.admission import Admission
from motet.streaming.app import create_app
from motet.streaming.auth import Principal
from motet.streaming.bench.sockets import InProcess, Refused
from motet.streaming.realtime import driver
from motet.streaming.realtime import outgoing as outlet
from motet.streaming.realtime.outgoing import Closed, Outgoing
from motet.streaming.realtime.settings import Settings as Offered
from motet.streaming.secrets import SecretStore
from motet.streaming.server import Server
from motet.streaming.settings import Settings

Event = dict[str, Any]
MANUAL = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
HALF_A_SECOND = base64.b64encode(bytes(24_000)).decode()


def voice(**llm: Any) -> dict[str, Any]:
    """A voice pipeline without models: the client says where turns end."""
    return {
        "name": "fake",
        "nodes": {
            "turn": {"use": "turn/silence"},
            "asr": {"use": "fakes:Hear"},
            "llm": {"use": "fakes:Answer", "options": llm},
            "tts": {"use": "fakes:Say"},
        },
        "edges": [
            "input -> turn -> asr -> conversation",
            {"turn -> conversation": ["SpeechStarted", "SpeechPaused", "SpeechStopped"]},
            "conversation -> llm -> tts -> conversation",
            "llm -> conversation",
        ],
        "conversation": {},
    }


def make(pipeline: dict[str, Any] | None = None, **settings: Any) -> Server:
    graph = build(PipelineSpec.model_validate(pipeline or voice()))
    return Server.make([graph], Settings(**settings))


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


async def closing(url: str, **options: Any) -> tuple[int, str, list[Event]]:
    """Connect to be closed: code, reason, and what came before."""
    events: list[Event] = []
    async with connect(url, **options) as socket:
        with contextlib.suppress(ConnectionClosed):
            while True:
                events.append(json.loads(await socket.recv()))
    return socket.close_code or 0, socket.close_reason or "", events


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


async def test_audio_that_the_pipeline_can_not_take_ends_in_1013_not_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "FEED_LIMIT_S", 0.1)
    stuck = voice()
    stuck["nodes"]["asr"] = {"use": "toolfake:Deaf"}
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


def event(size: int) -> Event:
    return {"type": "x", "delta": "a" * size}


async def test_a_slow_reader_slows_the_reply_down() -> None:
    outgoing = Outgoing(soft_bytes=100, hard_bytes=1000, stall_s=0.05)
    outgoing.put(event(50))
    await outgoing.room()
    outgoing.put(event(90))
    waiting = asyncio.create_task(outgoing.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await outgoing.take()
    await outgoing.take()
    await waiting


async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    outgoing = Outgoing(soft_bytes=100, hard_bytes=1000, stall_s=0.02)
    outgoing.put(event(200))
    with pytest.raises(Closed) as closed:
        await outgoing.room()
    assert closed.value.code == 1013


async def test_what_waits_for_a_reader_is_bounded_and_its_end_comes_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlet, "FLUSH_LIMIT_S", 0.01)
    outgoing = Outgoing(soft_bytes=100, hard_bytes=1000)
    for _ in range(100):
        outgoing.put(event(90))
    await outgoing.room()
    with pytest.raises(Closed) as taken:
        await outgoing.take()
    with pytest.raises(Closed) as ended:
        await outgoing.ended()
    assert taken.value.code == ended.value.code == 1013


async def test_audio_that_waits_for_a_slow_reader_is_dropped_when_its_reply_is_cut_off() -> None:
    outgoing = Outgoing(soft_bytes=1000)
    for name in ("r1", "r2"):
        delta = {"type": "response.output_audio.delta", "response_id": name, "delta": "a" * 600}
        outgoing.put(delta)
    waiting = asyncio.create_task(outgoing.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    outgoing.put({"type": "response.done", "response": {"id": "r1", "status": "cancelled"}})
    await waiting
    assert json.loads(await outgoing.take())["response_id"] == "r2"
    assert json.loads(await outgoing.take())["type"] == "response.done"


async def test_an_end_lets_what_came_before_it_out_and_nothing_after() -> None:
    outgoing = Outgoing()
    outgoing.put({"type": "last"})
    outgoing.end(Closed(1000, "bye"))
    outgoing.end(Closed(1011, "again"))
    outgoing.put({"type": "late"})
    assert json.loads(await outgoing.take()) == {"type": "last"}
    for _ in range(2):
        with pytest.raises(Closed) as closed:
            await outgoing.take()
        assert closed.value.code == 1000


def test_admission_counts_all_and_each_key() -> None:
    admission = Admission(3, 2)
    first = admission.try_enter("a")
    assert first is not None
    assert admission.try_enter("a")
    assert admission.try_enter("a") is None, "the key has its share"
    assert admission.try_enter("a", max_sessions=3)
    assert admission.try_enter("b") is None, "all places are taken"
    first.leave()
    first.leave()
    assert admission.open == 2
    with admission.try_enter("b"):  # pyright: ignore[reportOptionalContextManager]
        assert admission.try_enter("c") is None
    assert admission.open == 2


def test_ephemeral_keys_expire_and_are_kept_as_hashes() -> None:
    now = [1000.0]
    store = SecretStore(clock=lambda: now[0])
    key, _ = store.make(Principal("me"), Offered(), "voice", 60)
    assert key not in str(vars(store))
    found = store.find(key)
    assert found is not None
    assert found.principal.name == "me"
    assert store.find(key + "x") is None
    now[0] += 61
    assert store.find(key) is None
