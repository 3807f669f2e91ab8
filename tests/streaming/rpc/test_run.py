"""The gRPC door's `Run`: sessions of any pipeline, and components without their graph."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import rpcfakes
import rpcserving
from rpcserving import client, graph, served, stream, until

from motet.components.errors import BadInput
from motet.components.frames import (
    Audio,
    End,
    Frame,
    MediaFile,
    TextDelta,
    TextInput,
)
from motet.components.wire import motet_pb2 as pb
from motet.components.wire import motet_pb2_grpc


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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"sessions": {"idle_s": 0.3}}
    made = [
        graph("think", {"brain": "Brain"}, "input -> brain -> output", **bounds),
        graph("say", {"mouth": "Mouth"}, "input -> mouth -> output", **bounds),
    ]
    monkeypatch.setattr(rpcserving, "graphs", lambda: made)


PROMPT = pb.Prompt(messages=[pb.Message(role="user", text="a")])
IDLE = r"nothing was said or read for 0\.3 s"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("model", "node", "said"),
    [
        ("think", "", [pb.Frame(turn=1, prompt=PROMPT)]),
        ("say", "mouth", [pb.Frame(text_delta=pb.TextDelta(text="a"))]),
        ("say", "", []),
    ],
)
async def test_a_stream_that_says_nothing_more_ends(
    model: str, node: str, said: list[pb.Frame]
) -> None:
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = motet_pb2_grpc.MotetStub(channel)
        call = stub.Run(
            stream(*said, hold=asyncio.Event()),
            metadata=(("motet-model", model), ("motet-node", node)),
        )
        with pytest.raises(grpc.aio.AioRpcError, match=IDLE) as caught:
            [one async for one in call]
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.usefixtures("impatient")
async def test_a_stream_that_reads_nothing_more_holds_no_session() -> None:
    """It has closed its side, and 19 MB wait for it."""
    async with served() as (address, server), grpc.aio.insecure_channel(address) as channel:
        say = server.pipelines["say"]
        stub: Any = motet_pb2_grpc.MotetStub(channel)
        call = stub.Run(metadata=(("motet-model", "say"),))
        await call.write(pb.Frame(text_delta=pb.TextDelta(text="a" * 4000)))
        await call.done_writing()
        await call.read()
        assert say.sessions
        await until(lambda: not say.sessions)
        with pytest.raises(grpc.aio.AioRpcError, match=IDLE):
            while await call.read() is not grpc.aio.EOF:
                pass


@pytest.mark.usefixtures("impatient")
async def test_work_for_who_has_said_all_may_take_its_time() -> None:
    prompt = pb.Prompt(messages=[pb.Message(role="user", text="wait")])
    async with served() as (address, _), grpc.aio.insecure_channel(address) as channel:
        stub: Any = motet_pb2_grpc.MotetStub(channel)
        call = stub.Run(stream(pb.Frame(prompt=prompt)), metadata=(("motet-model", "think"),))
        for _ in "wait":
            assert (await call.read()).text_delta.text
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call.read(), 0.8)
