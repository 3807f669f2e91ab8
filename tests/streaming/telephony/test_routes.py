"""The doors for carriers: who may come in, and what a call gets."""

from __future__ import annotations

import base64
from typing import Any
from xml.etree import ElementTree

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec
from motet.streaming import problems
from motet.streaming.server import Server
from motet.streaming.settings import Settings
from motet.streaming.telephony import routes
from motet.streaming.telephony.routes import router
from motet.streaming.telephony.twilio import sign

from .test_dialects import STARTS

TOKEN = "a-token-of-twilio"


def client(token: str = "", **settings: Any) -> TestClient:
    server = Server.make([], Settings(**settings))
    app = FastAPI()
    app.state.server = server
    problems.install(app)
    app.include_router(router(server, twilio_token=token))
    return TestClient(app)


def refused(
    door: TestClient, path: str, headers: dict[str, str] | None = None
) -> WebSocketDisconnect:
    with (
        pytest.raises(WebSocketDisconnect) as caught,
        door.websocket_connect(path, headers=headers or {}) as websocket,
    ):
        websocket.receive_text()
    return caught.value


def test_answer_connects_the_call_and_passes_the_query_on() -> None:
    headers = {"host": "localhost:8000", "x-forwarded-proto": "https"}
    response = client().post(
        "/telephony/twilio?voice=heart&key=mk-secret", data={"From": "+1"}, headers=headers
    )
    assert response.headers["content-type"].startswith("text/xml")
    stream = ElementTree.fromstring(response.text).find("Connect/Stream")
    assert stream is not None
    assert stream.get("url") == "wss://localhost:8000/v1/telephony/twilio"
    assert [one.attrib for one in stream] == [{"name": "voice", "value": "heart"}]


def test_with_a_token_only_signed_requests_are_answered() -> None:
    door = client(TOKEN)
    fields = {"CallSid": "CA1", "From": "+14158675309"}
    headers = {"host": "phone.example", "x-forwarded-proto": "https"}
    good = sign("https://phone.example/telephony/twilio", fields.items(), TOKEN)
    signed = headers | {"x-twilio-signature": good}
    assert door.post("/telephony/twilio", data=fields, headers=signed).status_code == 200
    for wrong in (headers, headers | {"x-twilio-signature": "x"}):
        assert door.post("/telephony/twilio", data=fields, headers=wrong).status_code == 403
    changed = fields | {"From": "+1666"}
    assert door.post("/telephony/twilio", data=changed, headers=signed).status_code == 403


def test_with_a_token_an_unsigned_stream_is_closed() -> None:
    closed = refused(client(TOKEN), "/v1/telephony/twilio")
    assert closed.code == 1008
    assert "signed" in closed.reason


def test_a_signed_stream_gets_past_the_door() -> None:
    headers = {"host": "phone.example", "x-forwarded-proto": "https"}
    good = sign("wss://phone.example/v1/telephony/twilio", [], TOKEN)
    closed = refused(client(TOKEN), "/v1/telephony/twilio", headers | {"x-twilio-signature": good})
    assert "holds conversations" in closed.reason  # this server runs none: the door itself was open


@pytest.mark.parametrize("carrier", ["telnyx", "plivo", "exotel", "twilio"])
def test_without_a_token_a_key_opens_by_query_basic_or_bearer(carrier: str) -> None:
    door = client(api_keys=("mk-good",))
    path = f"/v1/telephony/{carrier}"
    basic = base64.b64encode(b"motet:mk-good").decode()
    assert "key is needed" in refused(door, path).reason
    assert "unknown" in refused(door, f"{path}?key=mk-bad").reason
    assert "holds conversations" in refused(door, f"{path}?key=mk-good").reason
    assert "holds conversations" in refused(door, path, {"authorization": f"Basic {basic}"}).reason
    assert "holds conversations" in refused(door, path, {"authorization": "Bearer mk-good"}).reason


def test_a_foreign_page_may_not_use_an_open_server() -> None:
    closed = refused(client(), "/v1/telephony/telnyx", {"origin": "https://evil.example"})
    assert closed.code == 1008
    assert "origin" in closed.reason


def test_an_unknown_carrier_is_told_the_known() -> None:
    closed = refused(client(), "/v1/telephony/twillio")
    assert closed.code == 1008
    assert "did you mean 'twilio'" in closed.reason


ECHO = {"nodes": {"a": {"use": "fakes:Echo"}}, "edges": ["input -> a -> output"]}
TALK = {**ECHO, "conversation": {}}


def three() -> TestClient:
    graphs = [
        build(PipelineSpec.model_validate({"name": name, **spec}))
        for name, spec in (("first", TALK), ("second", TALK), ("mute", ECHO))
    ]
    server = Server.make(graphs, Settings())
    app = FastAPI()
    app.state.server = server
    problems.install(app)
    app.include_router(router(server, twilio_token=""))
    return TestClient(app)


@pytest.mark.parametrize(
    ("model", "words"), [("secnd", "did you mean 'second'"), ("mute", "holds conversations")]
)
def test_a_number_names_a_pipeline_that_there_is(model: str, words: str) -> None:
    door = three()
    assert door.post("/telephony/twilio?model=second").status_code == 200
    answer = door.post(f"/telephony/twilio?model={model}")
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert words in refused(door, f"/v1/telephony/telnyx?model={model}").reason
    with (
        pytest.raises(WebSocketDisconnect) as caught,
        door.websocket_connect("/v1/telephony/twilio") as websocket,
    ):
        websocket.send_json({"event": "connected"})
        websocket.send_json(start(model))
        websocket.receive_text()
    assert words in caught.value.reason


@pytest.mark.parametrize(("model", "name"), [("second", "second"), (None, "first")])
def test_the_streams_parameter_chooses_the_pipeline(
    model: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[str, int]] = []

    async def hold(websocket: Any, server: Any, pipeline: Any, *rest: Any) -> None:
        held.append((pipeline.name, len(rest[-1])))
        await websocket.close()

    monkeypatch.setattr(routes, "hold", hold)
    with three().websocket_connect("/v1/telephony/twilio") as websocket:
        websocket.send_json({"event": "connected"})
        websocket.send_json(start(model))
        with pytest.raises(WebSocketDisconnect):
            websocket.receive_text()
    assert held == [(name, 2)], "what was read is passed on"


def start(model: str | None) -> dict[str, Any]:
    twilio = STARTS["twilio"]
    parameters = {"model": model} if model else {}
    return {**twilio, "start": {**twilio["start"], "customParameters": parameters}}
