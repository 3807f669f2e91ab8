"""The gRPC door: streams that never begin, calls that are given up, and connections that hoard."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import grpc
import pytest
from rpcserving import ask, served, stream, until

from motet.components.wire import motet_pb2_grpc, riva_asr_pb2_grpc
from motet.streaming.client import AsyncClient
from motet.streaming.rpc import door
from motet.streaming.rpc.server import SPARE_STREAMS
from motet.streaming.server import Server

pytestmark = pytest.mark.timeout(40)


@pytest.mark.parametrize(
    "made", [motet_pb2_grpc.MotetStub, riva_asr_pb2_grpc.RivaSpeechRecognitionStub]
)
async def test_a_stream_that_sends_nothing_loses_its_place(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "OPENING_S", 0.05)
    async with served(max_sessions=1) as (address, _), AsyncClient(address) as client:
        async with grpc.aio.insecure_channel(address) as channel:
            silent = made(channel).StreamingRecognize(stream(hold=asyncio.Event()))
            with pytest.raises(grpc.aio.AioRpcError, match="no first message within") as caught:
                [one async for one in silent]
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await client.models(), "there is a place again"


def counted(server: Server, status: str) -> float | None:
    labels = {"route": "grpc Chat", "status": status}
    return server.metrics.registry.get_sample_value("motet_request_seconds_count", labels)


async def test_a_call_that_is_given_up_is_not_counted_as_answered() -> None:
    async with served() as (address, server), AsyncClient(address) as client:
        answer = client.chat(ask("wait"))
        await anext(answer)
        await answer.aclose()
        await until(lambda: counted(server, "CANCELLED") == 1)
        assert counted(server, "OK") is None


async def test_a_connection_may_not_hold_streams_without_end() -> None:
    async with served(max_sessions=7) as (address, _):
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
        length, kind = struct.unpack(">IB", b"\0" + (await reader.readexactly(9))[:4])
        assert kind == 4, "the first frame is SETTINGS"
        settings = await reader.readexactly(length)
        writer.close()
    assert dict(struct.iter_unpack(">HI", settings))[3] == 7 + SPARE_STREAMS


@pytest.mark.parametrize(
    "method",
    [
        "motet.v1.Motet/Recognize",
        "motet.v1.Motet/Run",
        "nvidia.riva.asr.RivaSpeechRecognition/Recognize",
        "nvidia.riva.tts.RivaSpeechSynthesis/SynthesizeOnline",
    ],
)
@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer wrong"),)])
async def test_who_has_no_key_is_turned_away_before_a_message_is_read(
    method: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    """The message never comes: what answers all the same hasn't waited for it."""
    async with (
        served(api_keys=("secret-1",)) as (address, server),
        grpc.aio.insecure_channel(address) as channel,
    ):
        call = channel.stream_stream(f"/{method}")(
            stream(hold=asyncio.Event()), metadata=metadata, timeout=5
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [one async for one in call]
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert dict(caught.value.trailing_metadata() or ())["motet-code"] == "invalid_api_key"
        labels = {"route": f"grpc {method.split('/')[1]}", "status": "UNAUTHENTICATED"}
        count = server.metrics.registry.get_sample_value("motet_request_seconds_count", labels)
        assert count == 1
