"""A run lends work to the other replicas of its node: over its own link, and never by waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtimes import graph, idle, turn, until

from motet.components.base import Context
from motet.components.errors import BadInput, DeadlineExceeded, Overloaded
from motet.components.frames import Audio, Data, Fault, Frame, Image, TextInput
from motet.pipelines import Pipeline
from motet.pipelines.runtimes.mux import Hop, HopServer
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.session import Session

pytestmark = pytest.mark.timeout(120)


async def source(*frames: Frame, hold: bool = False) -> AsyncIterator[Frame]:
    for frame in frames:
        yield frame
    if hold:
        await asyncio.sleep(3600)


class Others:
    """Stands for the other replicas at the side that lends them."""

    def __init__(self) -> None:
        self.running = 0

    async def call(self, frames: AsyncIterator[Frame]) -> AsyncIterator[Frame]:
        self.running += 1
        try:
            async for frame in frames:
                match frame:
                    case TextInput(text="sleep"):
                        await asyncio.sleep(3600)
                    case TextInput(text="full"):
                        raise Overloaded("no place is free now", where="n")
                    case TextInput(text="bad"):
                        raise BadInput("wrong", where="n", param="text")
                    case TextInput(text="flood"):
                        for index in range(2_000):
                            yield TextInput("x", index)
                    case _:
                        yield frame
        finally:
            self.running -= 1


async def lend(node: str, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
    """A component that has its fellows do all of it."""
    if context.fellows is None:
        yield Data("alone")
        return
    async with aclosing(context.fellows.call(frames)) as answers:  # type: ignore[type-var]
        async for frame in answers:
            yield frame


@asynccontextmanager
async def connected(tmp_path: Path) -> AsyncIterator[tuple[Hop, HopServer]]:
    server = HopServer(lend, node="n")
    address = await server.start(f"unix:{tmp_path}/hop")
    try:
        async with Hop(address) as hop:
            yield hop, server
    finally:
        await server.stop()


def ask(hop: Hop, context: Context, *frames: Frame, hold: bool = False) -> AsyncIterator[Frame]:
    return hop.link.calls.call("n", source(*frames, hold=hold), context)


async def test_a_run_calls_back_within_its_call_many_at_once(tmp_path: Path) -> None:
    others = Others()

    async def one(hop: Hop, number: int) -> list[Frame]:
        context = Context(f"s{number}", fellows=others)
        frames = [TextInput(f"{number}", index) for index in range(40)]
        return [frame async for frame in ask(hop, context, *frames)]

    async with connected(tmp_path) as (hop, server):
        answers = await asyncio.gather(*(one(hop, number) for number in range(20)))
        assert answers == [
            [TextInput(f"{number}", index) for index in range(40)] for number in range(20)
        ]
        assert (hop.link.calls.active, server.active, others.running) == (0, 0, 0)
        assert [frame async for frame in ask(hop, Context(), TextInput("x"))] == [Data("alone")]


async def test_arrays_and_floods_go_back_and_forth(tmp_path: Path) -> None:
    context = Context(fellows=Others())
    pcm = np.random.default_rng(3).integers(-9000, 9000, 240_000).astype(np.int16)
    pixels = np.random.default_rng(4).integers(0, 255, (700, 700, 3), np.uint8)
    async with connected(tmp_path) as (hop, _):
        asked = ask(hop, context, Audio(pcm, 16_000), Image(pixels), TextInput("flood"))
        sound, picture, *rest = [frame async for frame in asked]
        np.testing.assert_array_equal(sound.pcm, pcm)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(picture.pixels, pixels)  # type: ignore[attr-defined]
        assert rest == [TextInput("x", index) for index in range(2_000)]


async def test_errors_of_fellows_arrive_as_they_were_raised(tmp_path: Path) -> None:
    context = Context(fellows=Others())
    async with connected(tmp_path) as (hop, _):
        with pytest.raises(Overloaded, match="no place is free now"):
            await anext(aiter(ask(hop, context, TextInput("full"))))
        with pytest.raises(BadInput, match="wrong") as bad:
            await anext(aiter(ask(hop, context, TextInput("bad"))))
        assert bad.value.param == "text"


async def test_what_is_lent_ends_with_the_run_that_lends(tmp_path: Path) -> None:
    others = Others()
    context = Context(fellows=others)
    async with connected(tmp_path) as (hop, server):
        answers = ask(hop, context, TextInput("first"), TextInput("sleep"), hold=True)
        assert await anext(aiter(answers)) == TextInput("first")
        assert others.running == 1
        await answers.aclose()  # type: ignore[attr-defined]
        await until(lambda: others.running == server.active == hop.link.calls.active == 0)


async def test_a_lent_run_keeps_the_deadline_of_the_run(tmp_path: Path) -> None:
    others = Others()
    async with connected(tmp_path) as (hop, server):
        late = asyncio.get_running_loop().time() + 0.2
        answers = ask(hop, Context(deadline_s=late, fellows=others), TextInput("sleep"), hold=True)
        with pytest.raises(DeadlineExceeded):
            await anext(aiter(answers))
        await until(lambda: others.running == server.active == 0)


async def test_a_run_may_not_use_the_fellows_of_another(tmp_path: Path) -> None:
    """Nor those of a run that is over."""
    found: list[str] = []

    async def stray(
        node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        calls = next(iter(server.links)).calls
        for within in (7, 2, 1 << 60):
            try:
                await anext(calls.call(node, source(), Context(), within=within))
            except Overloaded as error:
                found.append(str(error))
        yield Data("done")

    server = HopServer(stray, node="n")
    address = await server.start(f"unix:{tmp_path}/hop")
    async with Hop(address) as hop:
        answers = [frame async for frame in ask(hop, Context(fellows=Others()))]
    await server.stop()
    assert answers == [Data("done")]
    expected = [f"n: nobody serves it within call {call}" for call in (7, 2, 1 << 60)]
    assert found == expected


async def lent(session: Session, number: int, *texts: str) -> tuple[int, list[Any]]:
    """The process of a run, and what each of the texts that it lent all at once came back as."""
    session.start(number, TextInput("pid"), *(TextInput(f"lend {text}") for text in texts))
    pid, *found, _ = await turn(session, number)
    assert isinstance(pid, Data), pid
    return pid.value, [frame.value for frame in found]  # type: ignore[attr-defined]


@asynccontextmanager
async def lenders(replicas: int, **scale: Any) -> AsyncIterator[tuple[Pipeline, Session]]:
    scale = {"min_replicas": replicas, "max_replicas": replicas, **scale}
    uses, edges = {"a": "workerfakes:Lender"}, ["input -> a -> output"]
    made = WorkersRuntime(graph(uses, edges, scale=scale), drain_s=1.0)

    def ready() -> bool:
        return sum(one.state == "ready" for one in made.status()[0].replicas) == replicas

    async with Pipeline(made.graph, made) as pipeline, pipeline.session() as session:
        await until(ready)
        yield pipeline, session


async def test_lent_work_goes_to_the_others_as_far_as_they_have_places() -> None:
    async with lenders(3, concurrency=1) as (pipeline, session):
        own, found = await lent(session, 1, "nap pid", "nap pid", "nap pid")
        assert sorted(map(str, found))[-1] == "overloaded"
        pids = {pid for pid in found if pid != "overloaded"}
        assert len(pids) == 2
        assert own not in pids
        await until(lambda: idle(pipeline))
        assert pipeline.runtime.status()[0].refused == 0, "nobody was refused but a lender"


async def test_runs_that_hold_every_place_lend_nothing_and_wait_for_nobody() -> None:
    async with lenders(2, concurrency=1) as (pipeline, first), pipeline.session() as second:
        second.start(1, TextInput("sleep"))
        await until(lambda: pipeline.runtime.status()[0].active == 1)
        assert (await lent(first, 1, "pid"))[1] == ["overloaded"]


async def test_a_fellow_that_dies_costs_what_was_lent_to_it() -> None:
    async with lenders(3, concurrency=2) as (_, session):
        own, found = await lent(session, 1, "die", "nap pid")
        assert found[0] == "replica_gone"
        assert found[1] != own
        again, (pid,) = await lent(session, 2, "pid")
        assert pid != again


async def test_a_lender_that_dies_frees_the_places_it_had_taken() -> None:
    async with lenders(2, concurrency=2) as (pipeline, session), pipeline.session() as other:
        session.start(1, TextInput("lend sleep"), TextInput("lend sleep"))
        await until(lambda: pipeline.runtime.status()[0].active == 3)
        busy = {one.id: one.active for one in pipeline.runtime.status()[0].replicas}
        assert sorted(busy.values()) == [1, 2]
        other.start(1, TextInput("die"))
        for one in (other, session):
            assert isinstance((await turn(one, 1))[0], Fault)
        await until(lambda: idle(pipeline))


async def test_where_there_can_be_no_other_there_are_no_fellows() -> None:
    async with lenders(1) as (_, session):
        assert (await lent(session, 1, "pid"))[1] == ["alone"]
