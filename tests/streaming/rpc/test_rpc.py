"""The gRPC door with real clients: every method, statuses, keys, limits, TLS, reflection."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import rpcfakes
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from rpcserving import TONE, ask, client, served, stream, until, wav

from motet.components.errors import BadInput, DeadlineExceeded, MotetError, Overloaded
from motet.components.frames import (
    Completed,
    Generate,
    Image,
    Progress,
    TextDelta,
    TextInput,
    Usage,
)
from motet.components.wire import motet_pb2 as pb
from motet.components.wire import motet_pb2_grpc
from motet.streaming.client import AsyncClient, Client
from motet.streaming.rpc.server import SERVICES


async def test_recognize_a_wav_file_and_raw_audio() -> None:
    async with client() as motet:
        text = await motet.recognize(wav(TONE, 16_000), language="en")
        assert text == ("16000 samples, peak 700, language en 8000 samples, peak 700, language en")
        both = np.stack((TONE, -TONE // 7), axis=1)
        text = await motet.recognize(wav(both, 48_000, 2))
        assert text == "24000 samples, peak 300, language None"
        raw = np.full(4000, 0x55, np.uint8).tobytes()
        text = await motet.recognize(raw, encoding="alaw", rate_hz=8000)
        assert text == "4000 samples, peak 0, language None" or "peak 8" in text


async def test_recognize_while_it_is_said() -> None:
    async with client() as motet:
        data = TONE.tobytes()
        parts = [data[at : at + 1001] for at in range(0, len(data), 1001)]
        got = [
            one
            async for one in motet.recognize_stream(
                stream(*parts), encoding="pcm_s16le", rate_hz=16_000, partials=True
            )
        ]
        assert [one.final for one in got] == [False, True, False, True]
        assert [one.utterance for one in got] == [1, 1, 2, 2]
        lengths = [int(one.text.split()[0]) for one in got if one.final]
        assert sum(lengths) == 24_000
        assert got[1].logprob == -0.5


async def test_speech_from_a_text_and_from_its_pieces() -> None:
    async with client() as motet:
        audio = await motet.synthesize("abc", speed=0.5)
        assert audio.rate_hz == 24_000
        np.testing.assert_array_equal(audio.pcm, np.full(7200, 500))
        audio = await motet.synthesize("abc", rate_hz=8_000)
        assert (audio.rate_hz, len(audio.pcm)) == (8_000, 2400)
        parts = [one async for one in motet.synthesize_stream(stream("ab", "c"))]
        assert [one.start_ms for one in parts] == [0, 100, 200]


async def test_speech_begins_before_the_text_has_ended() -> None:
    hold = asyncio.Event()
    async with client() as motet:
        spoken = motet.synthesize_stream(stream("a", hold=hold))
        async with asyncio.timeout(5):
            first = await anext(spoken)
        assert first.start_ms == 0
        hold.set()
        assert [one async for one in spoken] == []


async def test_chat_embed_generate_and_models() -> None:
    async with client() as motet:
        got = [one async for one in motet.chat(ask("hi"))]
        deltas = [TextDelta("h", spoken=False), TextDelta("i", spoken=False)]
        assert got == [*deltas, Completed("stop", Usage(1, 2))]
        vectors = await motet.embed(["a", "bcd"])
        np.testing.assert_array_equal(vectors, [[1, 0], [3, 1]])
        got = [one async for one in motet.generate(Generate("red", count=2, width=4, height=2))]
        assert [type(one) for one in got] == [Progress, Image, Progress, Image]
        picture = got[3]
        assert isinstance(picture, Image)
        np.testing.assert_array_equal(picture.pixels, np.full((2, 4, 3), 3))
        assert await motet.models() == ["hear", "say", "think", "embed", "paint", "talk"]


async def test_the_blocking_client_does_the_same() -> None:
    async with served() as (address, _):

        def work() -> None:
            with Client(address, timeout_s=5) as motet:
                assert motet.recognize(wav(TONE[:100], 16_000)).startswith("100 samples")
                assert len(motet.synthesize("ab").pcm) == 4800
                assert len(list(motet.synthesize_stream(["a", "b"]))) == 2
                assert next(motet.chat(ask("x"))) == TextDelta("x", spoken=False)
                np.testing.assert_array_equal(motet.embed("abc"), [[3, 0]])
                assert len(list(motet.generate(Generate("x")))) == 2
                got = list(motet.recognize_stream([TONE.tobytes()], encoding="pcm_s16le"))
                assert [one.final for one in got] == [True, True]
                assert motet.models()[0] == "hear"
                run = motet.run([(1, TextInput("ab"))], model="embed")
                assert sorted(turn for turn, _, _ in run) == [0, 1, 1]
                with pytest.raises(Overloaded) as caught:
                    list(motet.chat(ask("full")))
                assert caught.value.retry_after_s is None

        await asyncio.to_thread(work)


async def test_what_is_safe_is_tried_again_where_a_replica_is_gone() -> None:
    async with client() as motet:
        np.testing.assert_array_equal(await motet.embed("dying"), [[5, 0]])


async def test_errors_carry_status_code_and_when_to_retry() -> None:
    async with served() as (address, _), AsyncClient(address) as motet:
        with pytest.raises(MotetError, match="told to fail") as caught:
            [one async for one in motet.chat(ask("fail"))]
        assert caught.value.code == "component_failed"
        with pytest.raises(BadInput, match=r"speed is 9\.0; possible"):
            await motet.synthesize("x", speed=9)
        with pytest.raises(BadInput, match="makes no sound of this text"):
            await motet.synthesize("")
        with pytest.raises(BadInput, match="makes no sound of this text"):
            [one async for one in motet.synthesize_stream(stream("", ""))]
        with pytest.raises(BadInput, match="must be a WAV file"):
            await motet.recognize(b"not audio at all")
        with pytest.raises(BadInput, match="a sample rate of 3"):
            await motet.recognize(b"xx", encoding="pcm_s16le", rate_hz=3)
        with pytest.raises(BadInput, match="'opus' isn't read; possible"):
            await motet.recognize(b"xx", encoding="opus")
        with pytest.raises(BadInput, match="0 texts"):
            await motet.embed([])
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = motet_pb2_grpc.MotetStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.Synthesize(pb.SynthesizeRequest(config=pb.SynthesizeConfig(speed=9)))
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert dict(error.value.trailing_metadata())["motet-param"] == "speed"


async def test_speech_longer_than_a_message_is_given_up_and_the_way_named() -> None:
    """Each letter is 4,800 bytes; the work of all the others isn't done first."""
    async with client(max_message_bytes=20_000) as motet:
        assert len((await motet.synthesize("abc")).pcm) == 7200
        with pytest.raises(BadInput, match="StreamingSynthesize"):
            await motet.synthesize("a" * 2000)
        assert len([one async for one in motet.synthesize_stream(stream("a" * 10))]) == 10


async def test_a_deadline_and_a_cancelled_call_stop_the_work() -> None:
    async with served() as (address, server):
        async with AsyncClient(address, timeout_s=0.3) as motet:
            with pytest.raises(DeadlineExceeded):
                [one async for one in motet.chat(ask("wait"))]
        await until(lambda: rpcfakes.Brain.running == 0)
        async with AsyncClient(address) as motet:
            answer = motet.chat(ask("wait"))
            await anext(answer)
            assert rpcfakes.Brain.running == 1
            await answer.aclose()
            await until(lambda: rpcfakes.Brain.running == 0)
        await until(lambda: not any(one.sessions for one in server.pipelines.values()))


async def test_keys_are_needed_and_limits_are_theirs() -> None:
    async with served(api_keys=("secret-1",), max_sessions_per_key=1) as (address, _):
        for key in (None, "wrong"):
            async with AsyncClient(address, key=key) as motet:
                with pytest.raises(MotetError) as caught:
                    await motet.models()
                assert caught.value.code == "invalid_api_key"
        async with AsyncClient(address, key="secret-1") as motet:
            assert await motet.models()
            answer = motet.chat(ask("wait"))
            await anext(answer)
            with pytest.raises(Overloaded, match="every session is taken") as caught:
                await motet.models()
            assert caught.value.retry_after_s == 5
            await answer.aclose()
        async with grpc.aio.insecure_channel(address) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1


async def test_a_message_above_the_limit_is_refused() -> None:
    async with client(max_message_bytes=100_000) as motet:
        with pytest.raises(MotetError, match="larger than max"):
            await motet.recognize(wav(np.zeros(60_000, np.int16), 16_000))
        assert await motet.models()


async def test_health_follows_the_server_and_new_calls_are_refused_at_the_end() -> None:
    async with served() as (address, server), grpc.aio.insecure_channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        asked = health_pb2.HealthCheckRequest(service="motet.v1.Motet")
        await asyncio.sleep(0.1)
        assert (await health.Check(asked)).status == health_pb2.HealthCheckResponse.SERVING
        motet = AsyncClient(address)
        running = motet.chat(ask("wait"))
        await anext(running)
        server.drain()
        stub: Any = motet_pb2_grpc.MotetStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.ListModels(pb.ListModelsRequest())
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await anext(running) == TextDelta("a", spoken=False), "what runs goes on"
        async with asyncio.timeout(5):
            async for told in health.Watch(asked):
                if told.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                    break
        await running.aclose()
        await motet.close()


async def test_reflection_describes_every_service() -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="motet.v1.Motet"),
        ]
        listed, file = [one async for one in stub.ServerReflectionInfo(stream(*requests))]
        names = {one.name for one in listed.list_services_response.service}
        assert set(SERVICES) <= names
        assert "motet.v1.Hop" not in names, "the inner hop is nobody's business"
        assert b"StreamingRecognize" in file.file_descriptor_response.file_descriptor_proto[0]


async def test_tls(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    pair = authority.issue_cert("localhost")
    for name, pem in (
        ("ca", authority.cert_pem),
        ("key", pair.private_key_pem),
        ("cert", pair.cert_chain_pems[0]),
    ):
        pem.write_to_path(tmp_path / name)
    files = {"tls_cert": tmp_path / "cert", "tls_key": tmp_path / "key"}
    async with served(**files) as (address, _):
        async with AsyncClient(address, authority=tmp_path / "ca") as motet:
            assert await motet.models()
        async with AsyncClient(address, timeout_s=2) as motet:
            with pytest.raises(MotetError):
                await motet.models()


async def test_threads_are_not_left_behind() -> None:
    before = threading.active_count()
    async with client() as motet:
        await motet.models()
    assert threading.active_count() <= before + 2
