"""Calls over WebRTC by an aiortc client: what is said, what is heard, and who takes part."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import numpy as np
import pytest
from caller import quiet, speech
from openai import AsyncOpenAI
from serving import listening
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from motet.streaming.app import create_app

aiortc = pytest.importorskip("aiortc")
from webcaller import SDP, WebCaller, web_calling  # noqa: E402
from webcalls import MANUAL, ask, emptied, make, pipeline, running  # noqa: E402

TEXT = " ".join(f"This is sentence number {number} of a long answer." for number in range(1, 9))


async def test_a_spoken_turn_is_answered_by_ear() -> None:
    server = make()
    async with running(server) as http, web_calling(http) as caller:
        assert (await caller.until("session.created"))["session"]["model"] == "fake"
        await caller.say(quiet(0.3), speech("What is the capital of France?"), quiet(1.0))
        await caller.until("output_audio_buffer.stopped")
        await asyncio.sleep(0.3)
        assert caller.kinds()[1] == "input_audio_buffer.speech_started"
        assert "response.output_audio.delta" not in caller.kinds()
        assert 1.5 < caller.voiced_s() < 1.8, "two sentences of 800 ms"
        spectrum = np.abs(np.fft.rfft(caller.sound()))
        assert abs(np.argmax(spectrum) * 48_000 / len(caller.sound()) - 220) < 2
    metrics = server.metrics.text().decode()
    assert 'motet_sessions{door="webrtc",pipeline="fake"} 0.0' in metrics
    assert 'motet_turns_total{outcome="completed",pipeline="fake"} 1.0' in metrics
    assert 'motet_bytes_total{direction="in",door="webrtc"} 0.0' not in metrics


async def test_barging_in_keeps_of_the_reply_what_was_played() -> None:
    question, stop = speech("What is the capital of France?"), speech("Stop.")
    async with running(make(pipeline(text=TEXT))) as http, web_calling(http) as caller:
        await caller.say(quiet(0.3), question, quiet(0.8))
        await caller.until("output_audio_buffer.started")
        await caller.until("response.done")
        once = {"type": "server_vad", "create_response": False}
        caller.send("session.update", session={"audio": {"input": {"turn_detection": once}}})
        await caller.say(quiet(1.0), stop, quiet(0.2))
        await caller.until("output_audio_buffer.cleared")
        cut = await caller.until("conversation.item.truncated")
        await asyncio.sleep(0.4)
        played_ms = caller.voiced_s() * 1000
        assert 800 < cut["audio_end_ms"] < 8 * 800
        assert cut["audio_end_ms"] - 200 <= played_ms <= cut["audio_end_ms"] + 60
        caller.send("conversation.item.retrieve", item_id=cut["item_id"])
        item = (await caller.until("conversation.item.retrieved"))["item"]
        heard = item["content"][0]["transcript"]
        assert heard
        assert TEXT.startswith(heard)
        assert len(heard) / len(TEXT) == pytest.approx(cut["audio_end_ms"] / 6400, abs=0.1)


async def test_a_call_can_be_hung_up_from_both_ends() -> None:
    server = make()
    async with running(server) as http:
        async with web_calling(http, MANUAL) as caller:
            await caller.until("session.created")
            path = f"/v1/realtime/calls/{caller.call_id}/hangup"
            assert (await http.post(path)).status_code == 200
            await asyncio.wait_for(caller.closed.wait(), 10)
            await emptied(server)
            answer = await http.post(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "call_not_found")
        async with web_calling(http, MANUAL) as caller:
            await ask(caller)
            await caller.until("output_audio_buffer.started")
        await emptied(server)
        async with web_calling(http, MANUAL) as caller:
            caller.channel.close()
            await emptied(server)


async def test_an_ephemeral_key_begins_the_call_it_was_made_for_and_owns_it() -> None:
    server = make(api_keys=("k", "other"))
    async with running(server) as http:
        mine, other = ({"authorization": f"Bearer {key}"} for key in ("k", "other"))
        body = {"session": {"type": "realtime", "instructions": "Sing."}}
        made = await http.post("/v1/realtime/client_secrets", json=body, headers=mine)
        ephemeral = {"authorization": "Bearer " + made.json()["value"]}
        async with web_calling(http, **ephemeral) as caller:
            created = await caller.until("session.created")
            assert created["session"]["instructions"] == "Sing."
            path = f"/v1/realtime/calls/{caller.call_id}/hangup"
            assert (await http.post(path)).status_code == 401
            assert (await http.post(path, headers=other)).status_code == 404
            assert (await http.post(path, headers=mine)).status_code == 200
            await asyncio.wait_for(caller.closed.wait(), 10)
        offer = {"content": "v=0", "headers": SDP}
        assert (await http.post("/v1/realtime/calls", **offer)).status_code == 401


async def test_a_call_without_a_channel_is_heard_and_answered() -> None:
    server = make()
    async with running(server) as http:
        caller = WebCaller()
        bare = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
        bare.addTrack(caller.mouth)
        bare.on("track", caller._listen)
        await bare.setLocalDescription(await bare.createOffer())
        offer = bare.localDescription.sdp
        answer = await http.post("/v1/realtime/calls", content=offer, headers=SDP)
        assert answer.status_code == 201
        await bare.setRemoteDescription(aiortc.RTCSessionDescription(answer.text, "answer"))
        await caller.say(quiet(0.5), speech("What is the capital of France?"), quiet(1.0))
        await caller.hears(1.5)
        await bare.close()
        await caller.close()


async def test_a_second_client_sees_the_call_and_takes_part() -> None:
    server = make()
    with listening(create_app(server)) as at:
        url = at.replace("http", "ws") + "/v1/realtime?call_id="
        async with (
            httpx.AsyncClient(base_url=at) as http,
            web_calling(http, MANUAL) as caller,
            connect(url + caller.call_id) as side,
        ):
            created = json.loads(await side.recv())
            assert created["type"] == "session.created", created
            mine = (await caller.until("session.created"))["session"]
            assert (created["type"], created["session"]["id"]) == ("session.created", mine["id"])
            update = {"type": "session.update", "session": {"instructions": "Be brief."}}
            await side.send(json.dumps(update))
            for told in (json.loads(await side.recv()), await caller.until("session.updated")):
                assert told["session"]["instructions"] == "Be brief."
            await side.send(json.dumps({"type": "input_audio_buffer.append", "audio": ""}))
            assert json.loads(await side.recv())["type"] == "error"
            await http.post(f"/v1/realtime/calls/{caller.call_id}/hangup")
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(side.recv(), 10)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1000
            async with connect(url + caller.call_id) as late:
                assert json.loads(await late.recv())["error"]["code"] == "call_not_found"


async def test_the_sdk_makes_a_call_by_a_form_joins_it_and_hangs_up() -> None:
    with listening(create_app(make(api_keys=("k",)))) as at:
        client = AsyncOpenAI(base_url=f"{at}/v1", api_key="k")
        caller = WebCaller()
        session: Any = {"type": "realtime", "instructions": "Sing.", **MANUAL}
        made = await client.realtime.calls.create(sdp=await caller.offer(), session=session)
        call_id = made.response.headers["location"].rpartition("/")[2]
        await caller.connection.setRemoteDescription(
            aiortc.RTCSessionDescription(made.text, "answer")
        )
        created = await caller.until("session.created")
        assert created["session"]["instructions"] == "Sing."
        assert created["session"]["audio"]["input"]["turn_detection"] is None
        async with client.realtime.connect(call_id=call_id) as side:
            assert (await side.recv()).type == "session.created"
            caller.send("session.update", session={"instructions": "Hum."})
            assert (await side.recv()).type == "session.updated"
        await client.realtime.calls.hangup(call_id)
        await asyncio.wait_for(caller.closed.wait(), 10)
        await caller.close()
        await client.close()
