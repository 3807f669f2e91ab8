"""The nodes of one turn: order, faults, cleanup, and components that are started anew."""

from __future__ import annotations

import asyncio

import fakes
import pytest
from runtimes import graph, in_a_row, turn

from motet.components.frames import End, Fault, TextInput, TurnSettings
from motet.pipelines import Pipeline
from motet.pipelines.lane import MAX_FAILURES

ECHO = "fakes:Echo"


async def test_frames_come_out_in_order_and_the_turn_ends() -> None:
    async with in_a_row(*[ECHO] * 3) as pipe, pipe.session() as session:
        session.start(1, *(TextInput("x", index) for index in range(50)))
        found = await turn(session, 1)
    assert [frame.index for frame in found[:-1]] == list(range(50))  # type: ignore[attr-defined]
    assert found[-1] == End()


async def test_a_component_may_leave_the_rest_of_a_long_request_unread() -> None:
    texts = [TextInput("x", index) for index in range(1000)]
    async with in_a_row("fakes:Once") as pipe:
        assert [frame async for frame in pipe.ask(*texts)] == texts[:1]


async def test_what_a_frame_brings_about_never_comes_out_before_it() -> None:
    narrow = {"echo -> shout": {"capacity": 1}}
    edges = ["input -> echo -> output", narrow, "shout -> output"]
    letters = "abcdefghij"
    async with Pipeline(graph({"echo": ECHO, "shout": "fakes:Shout"}, edges)) as pipe:
        found: list[str] = []
        async for frame in pipe.ask(*map(TextInput, letters)):
            assert isinstance(frame, TextInput)
            found.append(frame.text)
    assert sorted(found) == sorted(letters + letters.upper())
    assert all(found.index(one) < found.index(one.upper()) for one in letters)


@pytest.mark.parametrize("first", ["interrupt", "fault"])
async def test_what_is_cut_off_twice_still_cleans_up(first: str) -> None:
    fakes.Tidy.tidied = 0
    edges = ["input -> tidy -> output", "input -> echo -> output"]
    async with Pipeline(graph({"tidy": "fakes:Tidy", "echo": ECHO}, edges)) as pipe:
        async with pipe.session() as session:
            session.start(1, TextInput("a" if first == "interrupt" else "fail"))
            await anext(session)
            if first == "interrupt":
                session.interrupt(1)
            await asyncio.sleep(0)
        assert fakes.Tidy.tidied == 1


async def test_a_fault_ends_its_turn_and_not_the_session() -> None:
    async with in_a_row(ECHO, ECHO) as pipe, pipe.session() as session:
        session.start(1, TextInput("a"), TextInput("fail"), TextInput("b"))
        found = await turn(session, 1)
        faults = [frame for frame in found if isinstance(frame, Fault)]
        assert [(fault.node, fault.code) for fault in faults] == [("n0", "component_failed")]
        assert "told to fail" in faults[0].message
        assert isinstance(found[-1], End)
        session.start(2, TextInput("c"))
        assert TextInput("c") in await turn(session, 2)


async def test_the_callers_fault_keeps_its_code() -> None:
    async with in_a_row(ECHO) as pipe, pipe.session() as session:
        session.start(1, TextInput("bad"))
        assert Fault("n0", "invalid_value", "n0: told to be bad") in await turn(session, 1)


async def test_settings_outlive_the_frames_that_are_dropped() -> None:
    edges = [{"input -> n": {"capacity": 4, "overflow": "drop_oldest"}}, "n -> output"]
    async with Pipeline(graph({"n": "fakes:Tuned"}, edges)) as pipe, pipe.session() as session:
        assert session.offer(TurnSettings(silence_duration_ms=700))
        for _ in range(10):
            assert session.offer(TextInput("?"))
        session.finish()
        assert await turn(session, 0) == [TextInput("700")] * 3 + [End()]


async def test_a_component_that_is_started_anew_still_knows_its_settings() -> None:
    async with in_a_row("fakes:Tuned", conversation={}) as pipe, pipe.session() as session:
        await session.send(TurnSettings(silence_duration_ms=700))
        for _ in range(3):
            await session.send(TextInput("fail"))
            assert isinstance((await anext(session))[2], Fault)
            await session.send(TextInput("?"))
            assert (await anext(session))[2] == TextInput("700")


async def test_one_that_fails_at_its_settings_is_given_up() -> None:
    broken = in_a_row("fakes:Tuned", conversation={}, options={"broken": True})
    async with broken as pipe, pipe.session() as session:
        await session.send(TurnSettings())
        found = await turn(session, 0)
        assert [type(frame) for frame in found] == [Fault] * MAX_FAILURES + [End]


async def test_a_standing_stream_outlives_a_failing_component() -> None:
    async with in_a_row(ECHO, conversation={}) as pipe, pipe.session() as session:
        for text in ("a", "fail", "b"):
            await session.send(TextInput(text))
        seen = [await anext(session) for _ in range(3)]
        assert isinstance(seen[1][2], Fault)
        assert [seen[0][2], seen[2][2]] == [TextInput("a"), TextInput("b")]
