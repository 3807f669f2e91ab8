"""The gRPC door with real clients: every method, statuses, keys, limits, TLS, reflection."""

from __future__ import annotations

import asyncio
import io
import threading
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import rpcfakes
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from motet.components.errors import BadInput, DeadlineExceeded, MotetError, Overloaded
from motet.components.frames import (
    Audio,
    Completed,
    End,
    Frame,
    Generate,
    Image,
    MediaFile,
    Message,
    Progress,
    Prompt,
    TextDelta,
    TextInput,
    Usage,
)
from motet.components.wire import motet_pb2 as pb
from motet.components.wire import motet_pb2_grpc
from motet.pipelines import build
from motet.pipelines.graph import Graph
from motet.pipelines.spec import PipelineSpec
from motet.streaming.client import AsyncClient, Client
from motet.streaming.rpc.server import SERVICES, serving
from motet.streaming.server import Server
from motet.streaming.settings import Settings


def graph(name: str, uses: dict[str, str], *edges: str, **extra: Any) -> Graph:
    nodes = {node: {"use": f"rpcfakes:{use}"} for node, use in uses.items()}
    spec = {"name": name, "nodes": nodes, "edges": list(edges), **extra}
    return build(PipelineSpec.model_validate(spec))


def graphs() -> list[Graph]:
    return [
        graph("hear", {"ears": "Ears"}, "input -> ears -> output"),
        graph("say", {"mouth": "Mouth"}, "input -> mouth -> output"),
        graph("think", {"brain": "Brain"}, "input -> brain -> output"),
        graph("embed", {"space": "Space"}, "input -> space -> output"),
        graph("paint", {"brush": "Brush"}, "input -> brush -> output"),
        graph("talk", {"brain": "Brain", "mouth": "Mouth"}, "input -> brain -> mouth -> output"),
    ]


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[tuple[str, Server]]:
    server = Server.make(graphs(), Settings(host="localhost", shutdown_grace_s=0.2, **settings))
    for pipeline in server.pipelines.values():
        await pipeline.__aenter__()
    try:
        async with serving(server, port=0) as port:
            yield f"localhost:{port}", server
    finally:
        for pipeline in server.pipelines.values():
            await pipeline.__aexit__(None, None, None)


@asynccontextmanager
async def client(**settings: Any) -> AsyncIterator[AsyncClient]:
    async with served(**settings) as (address, _), AsyncClient(address) as made:
        yield made


def wav(samples: np.ndarray, rate_hz: int, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, rate_hz, 0, "NONE", ""))
        out.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


async def stream(*parts: Any, hold: asyncio.Event | None = None) -> AsyncIterator[Any]:
    for part in parts:
        yield part
    if hold is not None:
        await hold.wait()


def ask(text: str) -> Prompt:
    return Prompt((Message("user", text),), spoken=False)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is awaited is another task's counter
            await asyncio.sleep(0.005)


TONE = np.full(24_000, 700, np.int16)


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


async def test_run_a_session_of_a_pipeline() -> None:
    async with client() as motet:
        frames = [(1, TextInput("a", 5)), (2, TextInput("bc", 6)), (2, TextInput("d", 7))]
        got = [one async for one in motet.run(stream(*frames), model="embed")]
        ends = {turn for turn, _, frame in got if isinstance(frame, End)}
        assert ends == {0, 1, 2}
        vectors = [(turn, node, list(one.vector)) for turn, node, one in got if node]  # type: ignore[attr-defined]
        assert sorted(vectors) == [
            (1, "space", [1, 5]),
            (2, "space", [1, 7]),
            (2, "space", [2, 6]),
        ]


async def test_run_interrupts_and_finishes_turns() -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = motet_pb2_grpc.MotetStub(channel)
        call = stub.Run(metadata=(("motet-model", "think"),))
        prompt = pb.Prompt(messages=[pb.Message(role="user", text="wait")])
        await call.write(pb.Frame(turn=1, prompt=prompt))
        for _ in "wait":
            assert (await call.read()).text_delta.text
        await until(lambda: rpcfakes.Brain.running == 1)
        await call.write(pb.Frame(turn=1, interrupt=pb.Interrupt()))
        end = await call.read()
        assert (end.turn, end.WhichOneof("kind"), end.end.interrupted) == (1, "end", True)
        await until(lambda: rpcfakes.Brain.running == 0)
        prompt.messages[0].text = "x"
        await call.write(pb.Frame(turn=2, prompt=prompt))
        await call.write(pb.Frame(turn=2, finish=pb.Finish()))
        kinds = [(await call.read()).WhichOneof("kind") for _ in range(3)]
        assert kinds == ["text_delta", "completed", "end"]
        prompt.messages[0].text = "fail"
        await call.write(pb.Frame(turn=3, prompt=prompt))
        answers = [await call.read() for _ in range(6)]
        assert answers[4].fault.code == "component_failed"
        assert answers[5].WhichOneof("kind") == "end"
        await call.done_writing()
        assert (await call.read()).turn == 0
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_run_one_component_without_its_graph() -> None:
    async with client() as motet:
        frames = stream((0, TextDelta("hi")))
        got = [one async for one in motet.run(frames, model="talk", node="mouth")]
        assert [type(frame) for _, _, frame in got] == [Audio, Audio, End]
        with pytest.raises(BadInput, match="no node 'mouht'; did you mean 'mouth'"):
            [one async for one in motet.run(stream(), model="talk", node="mouht")]


@pytest.mark.parametrize(
    ("frames", "model", "words"),
    [
        ([(1, TextInput("x"))], "nobody", "no pipeline 'nobody'; known: hear"),
        ([(1, TextInput("x"))], "think", "no node of 'think' takes a TextInput"),
        ([(0, MediaFile("/etc/passwd"))], "embed", "the file may not be read"),
    ],
)
async def test_run_refuses_what_it_cannot_take(
    frames: list[tuple[int, Frame]], model: str, words: str
) -> None:
    async with client() as motet:
        with pytest.raises(BadInput, match=words):
            [one async for one in motet.run(stream(*frames), model=model)]


async def test_errors_carry_status_code_and_when_to_retry() -> None:
    async with served() as (address, _), AsyncClient(address) as motet:
        with pytest.raises(MotetError, match="told to fail") as caught:
            [one async for one in motet.chat(ask("fail"))]
        assert caught.value.code == "component_failed"
        with pytest.raises(BadInput, match=r"speed is 9\.0; possible"):
            await motet.synthesize("x", speed=9)
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
