"""Calls over WebRTC: what is refused, what is bounded, and every way to end without a word."""

from __future__ import annotations

import asyncio
import builtins
import json
from typing import Any

import numpy as np
import pytest

aiortc = pytest.importorskip("aiortc")
from webcaller import SDP, WebCaller, web_calling  # noqa: E402
from webcalls import MANUAL, ask, emptied, make, pipeline, running  # noqa: E402

from motet.streaming.realtime import outgoing as outlet  # noqa: E402
from motet.streaming.webrtc import call as calls  # noqa: E402
from motet.streaming.webrtc.playout import RATE_HZ, Playout  # noqa: E402


@pytest.mark.parametrize("told_by", ["consent", "silence"])
async def test_a_caller_that_vanishes_or_never_comes_leaves_nothing(
    told_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if told_by == "consent":
        monkeypatch.setattr("aioice.ice.CONSENT_INTERVAL", 0.05)
        monkeypatch.setattr("aioice.ice.CONSENT_FAILURES", 2)
    else:
        monkeypatch.setattr(calls, "SILENT_LIMIT_S", 0.3)
        monkeypatch.setattr(calls, "WATCH_S", 0.05)
    server = make()
    async with running(server) as http:
        async with web_calling(http, MANUAL) as caller:
            await ask(caller)
            await caller.until("response.created")
            for transceiver in caller.connection.getTransceivers():
                ice = transceiver.sender.transport.transport._connection
                for protocol in ice._protocols:
                    protocol.transport.abort()
            await emptied(server)
        monkeypatch.setattr(calls, "CONNECT_LIMIT_S", 0.3)
        never = WebCaller()
        answer = await http.post("/v1/realtime/calls", content=await never.offer(), headers=SDP)
        assert answer.status_code == 201
        await emptied(server)
        await never.close()


async def test_a_full_server_says_so_before_anything_is_made() -> None:
    server = make(max_sessions=1)
    limited = make(pipeline() | {"sessions": {"max_sessions": 1}})
    for one in (server, limited):
        async with running(one) as http, web_calling(http, MANUAL) as caller:
            other = WebCaller()
            answer = await http.post("/v1/realtime/calls", content=await other.offer(), headers=SDP)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
            await other.close()
            await ask(caller)
            await caller.until("response.done")
    refused = 'motet_refused_total{door="webrtc",reason="overloaded"} 1.0'
    assert refused in server.metrics.text().decode()


@pytest.mark.parametrize(
    ("content", "kind", "status", "said"),
    [
        ("v=0\r\nm=audio 9 x 1\r\n", "application/sdp", 400, "can't be used"),
        ("v=0\r\nm=audio", "application/sdp", 400, "can't be used"),
        ("hello", "application/sdp", 400, "starts with 'v=0'"),
        (b"\xff\xfe", "application/sdp", 400, "isn't UTF-8"),
        ("x" * (1 << 20) + "y", "application/sdp", 413, "more than 1048576 bytes"),
        ("{}", "application/json", 400, "possible: application/sdp"),
        ("--b\r\nbroken", "multipart/form-data; boundary=b", 400, ""),
        ("--b--\r\n", "multipart/form-data; boundary=b", 400, "no field 'sdp'"),
    ],
)
async def test_a_bad_offer_is_a_clear_error(
    content: str | bytes, kind: str, status: int, said: str
) -> None:
    server = make()
    async with running(server) as http:
        headers = {"content-type": kind}
        answer = await http.post("/v1/realtime/calls", content=content, headers=headers)
        assert answer.status_code == status, answer.text
        assert said in answer.json()["error"]["message"]
        await emptied(server)


async def test_every_field_cut_out_of_an_offer_is_an_error_or_a_call_never_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlet, "FLUSH_LIMIT_S", 0.1)
    server = make()
    async with running(server) as http:
        whole = WebCaller()
        lines = (await whole.offer()).splitlines()
        await whole.close()
        for number in range(len(lines)):
            cut = "\r\n".join(lines[:number] + lines[number + 1 :]) + "\r\n"
            answer = await http.post("/v1/realtime/calls", content=cut, headers=SDP)
            assert answer.status_code in (201, 400), (lines[number], answer.text)
            if answer.status_code == 201:
                await http.post(answer.headers["location"] + "/hangup")
        for way in ("sendonly", "inactive"):
            text = "\r\n".join(lines).replace("a=sendrecv", f"a={way}") + "\r\n"
            answer = await http.post("/v1/realtime/calls", content=text, headers=SDP)
            assert "sendrecv or recvonly" in answer.json()["error"]["message"]
        await emptied(server)


async def test_a_server_for_ice_that_gives_nothing_is_told_of_and_the_call_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make(
        ice_servers=("turn:me:secret@127.0.0.1:1?transport=tcp",), ice_address="203.0.113.9"
    )
    caller = WebCaller()
    async with running(server) as http:
        answer = await http.post("/v1/realtime/calls", content=await caller.offer(), headers=SDP)
        assert " 203.0.113.9 " in answer.text
        assert "turn:127.0.0.1:1?transport=tcp gave no address" in caplog.text
        await caller.accept(answer)
        await caller.until("session.created")
        await caller.close()


@pytest.mark.parametrize(
    ("session", "param"),
    [("{", "session"), ("[]", "session"), ('{"audio": {"output": {"speed": 9}}}', "speed")],
)
async def test_a_bad_session_is_a_clear_error(session: str, param: str) -> None:
    async with running(make()) as http:
        form = {"sdp": (None, "v=0\r\n"), "session": (None, session)}
        answer = await http.post("/v1/realtime/calls", files=form)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"].endswith(param)


async def test_a_stopping_server_takes_no_more_calls_tells_its_callers_and_lets_go() -> None:
    server = make()
    async with running(server) as http, web_calling(http, MANUAL) as caller:
        await caller.until("session.created")
        server.drain()
        late = WebCaller()
        answer = await http.post("/v1/realtime/calls", content=await late.offer(), headers=SDP)
        assert answer.status_code == 503
        await late.close()
        server.stopping.set()
        error = (await caller.until("error"))["error"]
        assert (error["type"], error["code"]) == ("server_error", "server_restarting")
        await asyncio.wait_for(caller.closed.wait(), 10)


async def test_a_long_reply_is_made_no_faster_than_a_minute_ahead_of_the_ear() -> None:
    playout = Playout()
    outgoing = calls.CallOutgoing(playout, None)
    playout.add("r", "i", np.ones(int(calls.MAX_AHEAD_S * RATE_HZ), np.int16))
    await outgoing.room()
    playout.add("r", "i", np.ones(1, np.int16))
    waiting = asyncio.create_task(outgoing.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    playout.pull(0.0)
    outgoing.played.set()
    await waiting


async def test_events_that_are_too_large_or_too_many_are_bounded() -> None:
    server = make()
    async with running(server) as http, web_calling(http, MANUAL) as caller:
        caller.channel.transport._remote_max_message_size = 0
        caller.channel.send(json.dumps({"type": "session.update", "pad": "x" * 300_000}))
        error = (await caller.until("error"))["error"]
        assert "possible: 262144" in error["message"]
        caller.send("session.update", session={"instructions": "Still here."})
        await caller.until("session.updated")
        for number in range(20):
            caller.connection.createDataChannel(f"more-{number}")
        error = (await caller.until("error", 2))["error"]
        assert "data channels" in error["message"]
        await emptied(server)


async def test_a_message_without_an_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "WATCH_S", 0.05)
    server = make()
    async with running(server) as http, web_calling(http, MANUAL) as caller:
        sctp = caller.channel.transport
        monkeypatch.setattr("aiortc.rtcsctptransport.SCTP_DATA_LAST_FRAG", 0)
        sctp._data_channel_send(caller.channel, "x" * 200_000)
        for _ in range(8):
            sctp._data_channel_send(caller.channel, "x" * 200_000)
        await emptied(server)


async def test_without_the_extra_the_answer_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, globals: Any = None, *rest: Any) -> Any:
        if name == "call" and (globals or {}).get("__package__") == "motet.streaming.webrtc":
            raise ModuleNotFoundError("No module named 'aiortc'", name="aiortc")
        return real(name, globals, *rest)

    async with running(make()) as http:
        monkeypatch.setattr(builtins, "__import__", missing)
        answer = await http.post("/v1/realtime/calls", content="v=0", headers=SDP)
        monkeypatch.undo()
        assert answer.status_code == 501
        assert "motet[webrtc]" in answer.json()["error"]["message"]


async def test_pages_of_allowed_origins_may_read_where_their_call_is() -> None:
    async with running(make(allow_origins=("https://mine.example",))) as http:
        ask_first = {
            "origin": "https://mine.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        answer = await http.options("/v1/realtime/calls", headers=ask_first)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://mine.example"
        answer = await http.post(
            "/v1/realtime/calls", content="v=0", headers=SDP | {"origin": "https://mine.example"}
        )
        assert answer.status_code == 400
        assert "Location" in answer.headers["access-control-expose-headers"]
        answer = await http.options(
            "/v1/realtime/calls", headers=ask_first | {"origin": "https://evil.example"}
        )
        assert "access-control-allow-origin" not in answer.headers
