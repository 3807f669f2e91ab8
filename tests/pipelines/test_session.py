"""Sessions: order, bounds, interrupts, faults, deadlines, and that nothing outlives one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import fakes
import pytest

from motet.components.base import Context
from motet.components.errors import BadInput, MotetError, Overloaded
from motet.components.frames import Data, End, Fault, Frame, TextInput, TurnSettings
from motet.pipelines import Pipeline, build
from motet.pipelines.lane import MAX_FAILURES
from motet.pipelines.spec import PipelineSpec

ECHO = "fakes:Echo"


def pipeline(uses: list[str], *, standing: bool = False, **extra: object) -> Pipeline:
    names = [f"n{index}" for index in range(len(uses))]
    nodes = {name: {"use": use, **extra} for name, use in zip(names, uses, strict=True)}
    edges = [" -> ".join(["input", *names, "output"])]
    spec: dict[str, object] = {"name": "test", "nodes": nodes, "edges": edges}
    if standing:
        spec["conversation"] = {}
    return Pipeline(build(PipelineSpec.model_validate(spec)))


async def collect(session: object, turn: int) -> list[Frame]:
    found: list[Frame] = []
    async for number, _, frame in session:  # type: ignore[attr-defined]
        if number == turn:
            found.append(frame)
            if isinstance(frame, End):
                return found
    raise AssertionError(f"the session ended before turn {turn}")


async def test_frames_come_out_in_order_and_the_turn_ends() -> None:
    async with pipeline([ECHO] * 3) as pipe, pipe.session() as session:
        session.start(1, *(TextInput("x", index) for index in range(50)))
        found = await collect(session, 1)
    assert [frame.index for frame in found[:-1]] == list(range(50))  # type: ignore[attr-defined]
    assert found[-1] == End()


async def test_a_request_may_be_longer_than_the_queues_it_enters() -> None:
    texts = [TextInput("x", index) for index in range(1000)]
    async with pipeline([ECHO] * 2) as pipe:
        assert [frame async for frame in pipe.ask(*texts)] == texts


async def test_a_request_too_long_for_a_queue_that_refuses_is_told_so() -> None:
    edges = [{"input -> n": {"capacity": 2, "overflow": "error"}}, "n -> output"]
    spec = {"name": "test", "nodes": {"n": {"use": ECHO}}, "edges": edges}
    async with Pipeline(build(PipelineSpec.model_validate(spec))) as pipe:
        with pytest.raises(Overloaded, match="2 frames wait already"):
            [_ async for _ in pipe.ask(*[TextInput("x")] * 5)]


async def test_standing_turn_takes_frames_until_finished() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        for index in range(500):
            await session.send(TextInput("x", index))
            _, _, frame = await anext(session)
            assert frame == TextInput("x", index)
        session.finish()
        assert await anext(session) == (0, "", End())


async def test_interrupt_cancels_down_to_the_component_and_drops_stale_frames() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        session.start(1, TextInput("a"), TextInput("sleep"))
        session.start(2, TextInput("sleep"))
        await asyncio.sleep(0.01)
        assert fakes.Echo.running == 2
        session.interrupt(1)
        session.start(3, TextInput("b"))
        seen = [await anext(session) for _ in range(3)]
        assert (1, "", End(interrupted=True)) in seen
        assert [frame for turn, _, frame in seen if turn == 1] == [End(interrupted=True)]
        session.interrupt()
        assert (await anext(session)) == (2, "", End(interrupted=True))
    assert fakes.Echo.running == 0


async def test_a_fault_ends_its_turn_and_not_the_session() -> None:
    async with pipeline([ECHO, ECHO]) as pipe, pipe.session() as session:
        session.start(1, TextInput("a"), TextInput("fail"), TextInput("b"))
        found = await collect(session, 1)
        faults = [frame for frame in found if isinstance(frame, Fault)]
        assert [(fault.node, fault.code) for fault in faults] == [("n0", "component_failed")]
        assert "told to fail" in faults[0].message
        assert isinstance(found[-1], End)
        session.start(2, TextInput("c"))
        assert TextInput("c") in await collect(session, 2)


async def test_the_callers_fault_keeps_its_code() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        session.start(1, TextInput("bad"))
        assert Fault("n0", "invalid_value", "n0: told to be bad") in await collect(session, 1)


async def test_a_component_that_is_started_anew_still_knows_its_settings() -> None:
    async with pipeline(["fakes:Tuned"], standing=True) as pipe, pipe.session() as session:
        await session.send(TurnSettings(silence_duration_ms=700))
        for _ in range(3):
            await session.send(TextInput("fail"))
            assert isinstance((await anext(session))[2], Fault)
            await session.send(TextInput("?"))
            assert (await anext(session))[2] == TextInput("700")


async def test_one_that_fails_at_its_settings_is_given_up() -> None:
    broken = {"options": {"broken": True}}
    async with (
        pipeline(["fakes:Tuned"], standing=True, **broken) as pipe,
        pipe.session() as session,
    ):
        await session.send(TurnSettings())
        found = await collect(session, 0)
        assert [type(frame) for frame in found] == [Fault] * MAX_FAILURES + [End]


async def test_a_standing_stream_outlives_a_failing_component() -> None:
    async with pipeline([ECHO], standing=True) as pipe, pipe.session() as session:
        for text in ("a", "fail", "b"):
            await session.send(TextInput(text))
        seen = [await anext(session) for _ in range(3)]
        assert isinstance(seen[1][2], Fault)
        assert [seen[0][2], seen[2][2]] == [TextInput("a"), TextInput("b")]


async def test_a_slow_reader_slows_the_producer() -> None:
    fakes.Flood.made = 0
    async with pipeline(["fakes:Flood"]) as pipe, pipe.session() as session:
        session.start(1, TextInput("go"))
        await asyncio.sleep(0.05)
        bound = pipe.graph.spec.sessions.max_output_frames
        assert fakes.Flood.made <= bound + 2
        assert len(await collect(session, 1)) == 10_001


async def test_offer_refuses_when_a_queue_is_full() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        taken = 0
        while session.offer(TextInput("sleep")):
            taken += 1
        assert taken == 64


async def test_a_deadline_ends_the_turn_with_a_fault() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        session.start(1, TextInput("sleep"), deadline_s=time.monotonic() + 0.03)
        found = await collect(session, 1)
    assert isinstance(found[0], Fault)
    assert found[0].code == "deadline_exceeded"
    assert fakes.Echo.running == 0


async def test_a_full_node_queue_refuses_and_the_rest_goes_on() -> None:
    limits = {"scale": {"concurrency": 1}, "queue": {"bound": 1}}
    async with pipeline([ECHO], **limits) as pipe, pipe.session() as session:
        session.start(1, TextInput("sleep"))
        await asyncio.sleep(0)
        session.start(2, TextInput("b"))
        session.start(3, TextInput("c"))
        found = await collect(session, 3)
        assert isinstance(found[0], Fault)
        assert found[0].code == "overloaded"
        session.interrupt(1)
        assert TextInput("b") in await collect(session, 2)


async def test_wrong_frames_and_turns_are_refused() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        with pytest.raises(BadInput, match="takes a Data"):
            await session.send(Data(1))
        with pytest.raises(BadInput, match="isn't open"):
            await session.send(TextInput("x"), turn=7)
        session.start(2, TextInput("a"))
        with pytest.raises(BadInput, match="isn't above"):
            session.start(2, TextInput("b"))


async def test_a_frame_that_comes_after_its_turn_ended_is_no_fault() -> None:
    async with pipeline([ECHO]) as pipe, pipe.session() as session:
        session.open(1)
        assert await session.send(TextInput("fail"), turn=1)
        await asyncio.sleep(0.05)
        assert not await session.send(TextInput("late"), turn=1), "failed, and nobody knows yet"
        assert not session.offer(TextInput("late"), turn=1)
        fault, end = await collect(session, 1)
        assert isinstance(fault, Fault)
        assert isinstance(end, End)
        assert not await session.send(TextInput("later"), turn=1), "its end was read"
        session.start(2, TextInput("a"))
        assert TextInput("a") in await collect(session, 2)


async def test_sessions_are_counted_and_bounded() -> None:
    spec = pipeline([ECHO]).graph.spec
    sessions = spec.sessions.model_copy(update={"max_sessions": 1})
    pipe = Pipeline(build(spec.model_copy(update={"sessions": sessions})))
    async with pipe:
        async with pipe.session():
            with pytest.raises(Overloaded, match="all 1 sessions"):
                pipe.session()
        async with pipe.session():
            pass


async def test_nothing_outlives_a_session_however_it_ends() -> None:
    before = len(asyncio.all_tasks())
    async with pipeline([ECHO] * 3) as pipe:
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
    pipe = pipeline([ECHO], **limits)
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
