"""Sessions: turns, bounds, interrupts, deadlines, and that nothing outlives one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import fakes
import pytest
from runtimes import graph, in_a_row, turn

from motet.components.base import Context
from motet.components.errors import BadInput, MotetError, Overloaded
from motet.components.frames import Data, End, Fault, Frame, TextInput
from motet.pipelines import Pipeline

ECHO = "fakes:Echo"


async def test_a_request_may_be_longer_than_the_queues_it_enters() -> None:
    texts = [TextInput("x", index) for index in range(1000)]
    async with in_a_row(*[ECHO] * 2) as pipe:
        assert [frame async for frame in pipe.ask(*texts)] == texts


async def test_a_request_too_long_for_a_queue_that_refuses_is_told_so() -> None:
    edges = [{"input -> n": {"capacity": 2, "overflow": "error"}}, "n -> output"]
    async with Pipeline(graph({"n": ECHO}, edges)) as pipe:
        with pytest.raises(Overloaded, match=r"^n: 2 frames wait already$"):
            [_ async for _ in pipe.ask(*[TextInput("x")] * 5)]
        async with pipe.session() as session:
            session.start(1, *[TextInput("x")] * 5)
            fault = Fault("", "overloaded", "n: 2 frames wait already")
            assert await turn(session, 1) == [fault, End(interrupted=True)]


async def test_standing_turn_takes_frames_until_finished() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        for index in range(500):
            await session.send(TextInput("x", index))
            _, _, frame = await anext(session)
            assert frame == TextInput("x", index)
        session.finish()
        assert await anext(session) == (0, "", End())


async def test_interrupt_cancels_down_to_the_component_and_drops_stale_frames() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        session.start(1, TextInput("a"), TextInput("sleep"))
        session.start(2, TextInput("sleep"))
        await asyncio.sleep(0.01)
        assert fakes.Echo.running == 2
        session.interrupt(1)
        session.start(3, TextInput("b"))
        seen = [await anext(session) for _ in range(3)]
        assert (1, "", End(interrupted=True)) in seen
        assert [frame for number, _, frame in seen if number == 1] == [End(interrupted=True)]
        session.interrupt()
        assert (await anext(session)) == (2, "", End(interrupted=True))
    assert fakes.Echo.running == 0


async def test_a_slow_reader_slows_the_producer() -> None:
    fakes.Flood.made = 0
    async with in_a_row("fakes:Flood") as pipe, pipe.session() as session:
        session.start(1, TextInput("go"))
        await asyncio.sleep(0.05)
        bound = pipe.graph.spec.sessions.max_output_frames
        assert fakes.Flood.made <= bound + 2
        assert len(await turn(session, 1)) == 10_001


async def test_offer_refuses_when_a_queue_is_full() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        taken = 0
        while session.offer(TextInput("sleep")):
            taken += 1
        assert taken == 64


async def test_a_deadline_ends_the_turn_with_a_fault() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        session.start(1, TextInput("sleep"), deadline_s=time.monotonic() + 0.03)
        fault = Fault("", "deadline_exceeded", "turn 1 didn't end by its deadline")
        assert await turn(session, 1) == [fault, End(interrupted=True)]
    assert fakes.Echo.running == 0


async def test_a_session_that_is_ended_from_outside_says_why_in_every_turn_still_open() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        session.start(1, TextInput("sleep"))
        session.start(2, TextInput("sleep"))
        await asyncio.sleep(0)
        session.interrupt(1)
        session.fail(MotetError("the house burns"))
        found = [await anext(session) for _ in range(5)]
    fault = Fault("", "internal_error", "the house burns")
    told = [(number, frame) for number, _, frame in found if isinstance(frame, Fault)]
    assert told == [(0, fault), (2, fault)], "nobody waits for what was interrupted"
    assert {number for number, _, frame in found if isinstance(frame, End)} == {0, 1, 2}


async def test_a_full_node_queue_refuses_and_the_rest_goes_on() -> None:
    limits = {"scale": {"concurrency": 1}, "queue": {"bound": 1}}
    async with in_a_row(ECHO, **limits) as pipe, pipe.session() as session:
        session.start(1, TextInput("sleep"))
        await asyncio.sleep(0)
        session.start(2, TextInput("b"))
        session.start(3, TextInput("c"))
        found = await turn(session, 3)
        assert isinstance(found[0], Fault)
        assert found[0].code == "overloaded"
        session.interrupt(1)
        assert TextInput("b") in await turn(session, 2)


async def test_wrong_frames_and_turns_are_refused() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        with pytest.raises(BadInput, match="takes a Data"):
            await session.send(Data(1))
        with pytest.raises(BadInput, match="isn't open"):
            await session.send(TextInput("x"), turn=7)
        session.start(2, TextInput("a"))
        with pytest.raises(BadInput, match="isn't above"):
            session.start(2, TextInput("b"))


async def test_a_frame_that_comes_after_its_turn_ended_is_no_fault() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        session.open(1)
        assert await session.send(TextInput("fail"), turn=1)
        await asyncio.sleep(0.05)
        assert not await session.send(TextInput("late"), turn=1), "failed, and nobody knows yet"
        assert not session.offer(TextInput("late"), turn=1)
        fault, end = await turn(session, 1)
        assert isinstance(fault, Fault)
        assert isinstance(end, End)
        assert not await session.send(TextInput("later"), turn=1), "its end was read"
        session.start(2, TextInput("a"))
        assert TextInput("a") in await turn(session, 2)


async def test_sessions_are_counted_and_bounded() -> None:
    async with in_a_row(ECHO, sessions={"max_sessions": 1}) as pipe:
        async with pipe.session():
            with pytest.raises(Overloaded, match="all 1 sessions"):
                pipe.session()
        async with pipe.session():
            pass


async def test_nothing_outlives_a_session_however_it_ends() -> None:
    before = len(asyncio.all_tasks())
    async with in_a_row(*[ECHO] * 3) as pipe:
        for _ in range(100):
            with pytest.raises(MotetError):
                async with pipe.session() as session:
                    session.start(1, TextInput("sleep"))
                    await session.send(TextInput("a"))
                    await asyncio.sleep(0)
                    raise MotetError("the client hung up")
        assert len(asyncio.all_tasks()) == before
        assert not pipe.sessions
    assert fakes.Echo.running == 0


async def test_a_queue_by_priority_serves_the_higher_first_and_hands_places_on() -> None:
    limits = {"scale": {"concurrency": 1}, "queue": {"bound": 8, "order": "priority"}}
    pipe = in_a_row(ECHO, **limits)
    order: list[str] = []
    go_on = asyncio.Event()

    async def ask(text: str, priority: int) -> None:
        context = Context(text, turn=1, priority=priority)

        async def frames() -> AsyncIterator[Frame]:
            yield TextInput(text)

        async for _ in pipe.runtime.call("n0", frames(), context):
            order.append(text)
            await go_on.wait()

    async def until(queued: int) -> None:
        while not order or pipe.runtime.status()[0].queued != queued:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async with pipe, asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(ask("first", 0))
        await until(0)
        gone = group.create_task(ask("gone", 9))
        for name, priority in (("low", 0), ("high", 2), ("middle", 1)):
            group.create_task(ask(name, priority))
        await until(4)
        gone.cancel()
        await until(3)
        go_on.set()
    assert order == ["first", "high", "middle", "low"]
    assert pipe.runtime.status()[0].active == 0
