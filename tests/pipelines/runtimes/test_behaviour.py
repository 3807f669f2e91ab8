"""One suite for every runtime: the same graph behaves the same, wherever its components run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from runtimes import idle, turn, until

from motet.components.frames import (
    Audio,
    Data,
    End,
    Fault,
    Frame,
    Image,
    Message,
    Prompt,
    SpeechStopped,
    TextInput,
    Transcript,
)
from motet.pipelines.session import Session

pytestmark = pytest.mark.timeout(120)
CHAIN = ({"a": "workerfakes:Worker", "b": "workerfakes:Worker"}, ["input -> a -> b -> output"])
ONE = ({"a": "workerfakes:Worker"}, ["input -> a -> output"])


async def test_frames_faults_deadlines_and_interrupts(serve: Callable[..., Any]) -> None:
    async with serve(*CHAIN) as (pipeline, session):
        texts = [TextInput(f"t{index}", index) for index in range(60)]
        session.start(1, *texts)
        assert await turn(session, 1) == [*texts, End()]

        session.start(2, TextInput("context"))
        assert (await turn(session, 2))[0] == Data(["s1", 2, "k1", 0])

        for number, (text, code) in enumerate(
            [("bad", "invalid_value"), ("full", "overloaded"), ("fail", "component_failed")], 3
        ):
            session.start(number, TextInput("before"), TextInput(text), TextInput("after"))
            *_, fault, end = await turn(session, number)
            assert isinstance(fault, Fault)
            assert (fault.node, fault.code) == ("a", code)
            assert "told to" in fault.message
            assert text in fault.message
            assert end == End()

        session.start(6, TextInput("sleep"), deadline_s=time.monotonic() + 0.2)
        fault, end = await turn(session, 6)
        assert isinstance(fault, Fault)
        assert fault.code == "deadline_exceeded"
        await until(lambda: idle(pipeline))

        session.start(7, TextInput("first"), TextInput("sleep"))
        assert (await anext(session))[2] == TextInput("first")
        session.interrupt()
        assert await turn(session, 7) == [End(interrupted=True)]
        await until(lambda: idle(pipeline))

        session.start(8, TextInput("still well"))
        assert await turn(session, 8) == [TextInput("still well"), End()]


async def test_a_slow_reader_slows_the_producer_and_nobody_else(serve: Callable[..., Any]) -> None:
    sessions = {"max_output_frames": 20}
    async with serve(*CHAIN, sessions=sessions) as (pipeline, session):
        session.start(1, TextInput("flood"))
        assert (await anext(session))[2] == TextInput("x", 0)
        await asyncio.sleep(0.2)
        async with pipeline.session() as other:
            other.start(1, TextInput("hello"))
            assert await turn(other, 1) == [TextInput("hello"), End()]
        found = await turn(session, 1)
        assert [frame.index for frame in found[:-1]] == list(range(1, 5_000))  # type: ignore[attr-defined]


async def test_a_five_mebibyte_picture_goes_through(serve: Callable[..., Any]) -> None:
    pixels = np.random.default_rng(5).integers(0, 255, (1280, 1366, 3), np.uint8)
    assert pixels.nbytes > 5 * 2**20
    async with serve(*CHAIN) as (_, session):
        session.start(1, Image(pixels), TextInput("x"))
        picture, text, end = await turn(session, 1)
        assert isinstance(picture, Image)
        np.testing.assert_array_equal(picture.pixels, pixels)
        assert (text, end) == (TextInput("x"), End())


async def test_a_full_queue_refuses_the_newest_and_serves_the_rest(
    serve: Callable[..., Any],
) -> None:
    scale, queue = {"concurrency": 1}, {"bound": 2}
    async with serve(*ONE, scale=scale, queue=queue) as (pipeline, session):

        def counts() -> tuple[int, int]:
            (node,) = pipeline.runtime.status()
            return node.active, node.queued

        session.start(1, TextInput("sleep"))
        await until(lambda: counts() == (1, 0))
        session.start(2, TextInput("second"))
        session.start(3, TextInput("third"))
        await until(lambda: counts() == (1, 2))
        for number in (4, 5):
            session.start(number, TextInput("too many"))
            fault, end = await turn(session, number)
            assert isinstance(fault, Fault)
            assert (fault.code, end) == ("overloaded", End())
        session.interrupt(1)
        found: list[Frame] = []
        async with asyncio.timeout(40):
            while sum(isinstance(frame, End) for frame in found) < 3:
                found.append((await anext(session))[2])
        assert [frame for frame in found if not isinstance(frame, End)] == [
            TextInput("second"),
            TextInput("third"),
        ]
        await until(lambda: idle(pipeline))
        assert pipeline.runtime.status()[0].refused == 2


async def test_the_higher_priority_is_served_first(serve: Callable[..., Any]) -> None:
    scale, queue = {"concurrency": 1}, {"order": "priority"}
    async with serve(*ONE, scale=scale, queue=queue) as (pipeline, session):
        served: list[int] = []

        async def ask(priority: int) -> None:
            async for _ in pipeline.ask(TextInput("x"), priority=priority):
                served.append(priority)

        def counts() -> tuple[int, int]:
            (node,) = pipeline.runtime.status()
            return node.active, node.queued

        session.start(1, TextInput("sleep"))
        await until(lambda: counts() == (1, 0))
        async with asyncio.TaskGroup() as group:
            for priority in (0, 2, 1):
                group.create_task(ask(priority))
            await until(lambda: counts() == (1, 3))
            session.interrupt(1)
    assert served == [2, 1, 0]


async def test_a_run_cancelled_in_the_queue_leaves_no_trace(serve: Callable[..., Any]) -> None:
    async with serve(*ONE, scale={"concurrency": 1}) as (pipeline, session):
        session.start(1, TextInput("sleep"))
        session.start(2, TextInput("queued"))
        await until(lambda: pipeline.runtime.status()[0].queued == 1)
        session.interrupt(2)
        await until(lambda: pipeline.runtime.status()[0].queued == 0)
        session.interrupt()
        await until(lambda: idle(pipeline))
        session.start(3, TextInput("next"))
        assert (await turn(session, 3))[0] == TextInput("next"), "the place is free"


async def test_a_voice_turn_and_barge_in(serve: Callable[..., Any]) -> None:
    uses = {"asr": "fakes:Hear", "llm": "fakes:Answer", "tts": "fakes:Say"}
    edges = ["input -> asr -> conversation", "conversation -> llm -> tts -> output"]
    async with serve(uses, edges, conversation={}) as (_, session):
        for index in range(10):
            await session.send(Audio(np.zeros(320, np.int16), 16_000, index * 20))
        await session.send(SpeechStopped(1, 200))
        which, node, heard = await anext(session)
        assert (which, node, heard) == (0, "asr", Transcript("hello there", True, utterance=1))
        prompt = Prompt((Message("user", "hello there"),))
        session.start(1, prompt)
        answer = await turn(session, 1)
        spoken = [frame for frame in answer if isinstance(frame, Audio)]
        assert sum(frame.duration_ms for frame in spoken) == 1600
        assert isinstance(answer[-1], End)
        session.start(2, prompt)
        await anext(session)
        session.interrupt()
        session.start(3, prompt)
        async with asyncio.timeout(40):
            kinds = [(which, type(frame)) async for which, _, frame in until_end(session, 3)]
        assert (2, End) in kinds
        assert kinds.index((2, End)) <= 1, "nothing stale comes after the interrupt"
        assert (3, Audio) in kinds


async def until_end(session: Session, number: int) -> AsyncIterator[tuple[int, str, Frame]]:
    async for output in session:
        yield output
        if output[0] == number and isinstance(output[2], End):
            return
