"""Versions of a pipeline: reload and canary, on what is the same, without a session lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from versioned import answer, asked, graph, until
from versionfakes import Tag

from motet.components.errors import MissingRequirement, MotetError, SpecError
from motet.components.frames import Fault, TextInput
from motet.pipelines import Pipeline
from motet.pipelines import versions as versions_module
from motet.pipelines.canary import CanarySpec
from motet.pipelines.graph import Graph
from motet.pipelines.runtimes.base import Runtime
from motet.pipelines.runtimes.local import LocalRuntime
from motet.pipelines.runtimes.remote import RemoteRuntime
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.session import Session
from motet.pipelines.versions import Conflict

pytestmark = pytest.mark.timeout(60)
RUNTIMES: dict[str, Callable[[Graph], Runtime]] = {
    "local": lambda graph: LocalRuntime(graph, cores=2),
    "workers": lambda graph: WorkersRuntime(graph, cores=2),
}


@pytest.fixture(autouse=True)
def counted() -> None:
    Tag.loads.clear()
    Tag.closes.clear()


@pytest.fixture(params=list(RUNTIMES))
def on(request: pytest.FixtureRequest) -> Callable[[Graph], Pipeline]:
    return lambda made: Pipeline(made, RUNTIMES[request.param](made))


async def test_a_reload_keeps_sessions_on_the_old_one_and_weights_that_are_the_same(
    on: Callable[[Graph], Pipeline],
) -> None:
    async with on(graph()) as pipeline:
        versions = pipeline.versions
        async with pipeline.session() as old:
            first = await answer(old, 1)
            versions.adopt(await versions.start(graph(tag="new")))
            async with pipeline.session() as new:
                second = await answer(new, 1)
                assert [tag for tag, _ in second] == ["same", "new"]
                assert second[0] == first[0], "the node that is the same has moved"
                assert second[1] != first[1]
                assert await answer(old, 2) == first
                assert [one.role for one in versions.all] == ["stable", "retiring"]
        await until(lambda: not versions.retiring)
        assert await asked(pipeline) == "new"
        nodes = {one.node: one for one in pipeline.runtime.status()}
        assert (nodes["a"].version, nodes["b"].version) == ("1", "2")
        assert len(nodes["a"].replicas) == 1, "the shared node was stopped with the old version"


async def test_weights_are_loaded_once_and_freed_with_their_last_version() -> None:
    async with Pipeline(graph()) as pipeline:
        versions = pipeline.versions
        versions.adopt(await versions.start(graph(tag="new")))
        await until(lambda: not versions.retiring)
        assert Tag.loads == {"a same": 1, "b old": 1, "b new": 1}
        assert Tag.closes == {"b old": 1}
        versions.adopt(await versions.start(graph(tag="new"), fresh=True))
        await until(lambda: not versions.retiring)
        assert Tag.loads == {"a same": 2, "b old": 1, "b new": 2}
    assert Tag.closes == Tag.loads


async def test_what_cannot_be_loaded_changes_nothing(on: Callable[[Graph], Pipeline]) -> None:
    async with on(graph()) as pipeline:
        for _ in range(2):
            with pytest.raises(MissingRequirement, match="the weights are not there"):
                await pipeline.versions.start(graph(no_weights=True))
        assert [one.id for one in pipeline.versions.all] == ["1"]
        assert await asked(pipeline) == "old"


async def test_a_canary_gets_its_share_and_sessions_stay_where_they_began(
    on: Callable[[Graph], Pipeline],
) -> None:
    async with on(graph()) as pipeline:
        versions = pipeline.versions
        versions.begin(await versions.start(graph(tag="new")), CanarySpec(share=0.25))
        seen = Counter([await asked(pipeline) for _ in range(40)])
        assert 9 <= seen["new"] <= 11
        sessions = [pipeline.session() for _ in range(4)]
        before: list[str] = []
        for session in sessions:
            await session.__aenter__()
            before.append((await answer(session, 1))[-1][0])
        versions.move(1.0)
        assert [await asked(pipeline) for _ in range(5)] == ["new"] * 5
        versions.promote()
        assert [(await answer(one, 2))[-1][0] for one in sessions] == before
        assert set(before) == {"old", "new"}
        for session in sessions:
            await session.__aexit__(None, None, None)
        await until(lambda: not versions.retiring)
        assert [(one.id, one.role) for one in versions.all] == [("2", "stable")]
        assert versions.stable.runs == seen["new"] + 2 * before.count("new") + 5


async def test_what_outlives_the_drain_deadline_is_told(on: Callable[[Graph], Pipeline]) -> None:
    async with on(graph()) as pipeline:
        versions = pipeline.versions
        waits = asyncio.create_task(asked(pipeline, "hold"))
        await until(lambda: pipeline.runtime.status()[0].active == 1)
        async with pipeline.session() as talk:
            await answer(talk, 1)
            talk.start(2, TextInput("hold"))
            versions.adopt(await versions.start(graph(tag="new")), drain_s=0.0)
            with pytest.raises(MotetError, match="ask again") as caught:
                await waits
            assert caught.value.code == "stopping"
            await talk.evicted.wait()
            faults = {turn: frame.code async for turn, _, frame in limited(talk)}
            assert faults == {0: "stopping", 2: "stopping"}
        await until(lambda: not versions.retiring)
        assert await asked(pipeline) == "new"


async def limited(session: Session) -> Any:
    """The two faults that an evicted session gives."""
    left = 2
    async for turn, node, frame in session:
        if isinstance(frame, Fault):
            yield turn, node, frame
            left -= 1
            if not left:
                return


async def test_a_client_that_does_not_leave_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions_module, "LAST_WORDS_S", 0.1)
    async with Pipeline(graph()) as pipeline:
        versions = pipeline.versions
        session = pipeline.session()
        await session.__aenter__()
        versions.adopt(await versions.start(graph(tag="new")), drain_s=0.0)
        await until(lambda: not versions.retiring)
        with pytest.raises(StopAsyncIteration):
            for _ in range(10):
                await anext(session)
        await session.__aexit__(None, None, None)
        assert Tag.closes == {"b old": 1}


async def test_one_change_at_a_time_and_of_this_pipeline() -> None:
    async with Pipeline(graph()) as pipeline:
        versions = pipeline.versions
        with pytest.raises(SpecError, match="name: is 'other'; a version of 't' is needed"):
            await versions.start(graph("other"))
        version = await versions.start(graph(tag="new"))
        with pytest.raises(Conflict, match="another version is being started"):
            await versions.start(graph(tag="newer"))
        versions.begin(version, CanarySpec())
        with pytest.raises(Conflict, match="version 2 is a canary; promote it or abort it"):
            await versions.start(graph(tag="newer"))
        versions.abort()
        for change in (versions.promote, versions.abort, lambda: versions.move(0.5)):
            with pytest.raises(Conflict, match="there is no canary"):
                change()


async def test_old_versions_are_bounded() -> None:
    async with Pipeline(graph()) as pipeline:
        versions, held = pipeline.versions, list[Any]()
        for number in range(7):
            held.append(pipeline.session())
            await held[-1].__aenter__()
            versions.adopt(await versions.start(graph(tag=str(number))))
        with pytest.raises(Conflict, match="7 old versions still have sessions"):
            await versions.start(graph(tag="8"))
        for session in held:
            await session.__aexit__(None, None, None)
    assert Tag.closes == Tag.loads


async def test_bounds_on_sessions_hold_over_all_versions() -> None:
    async with Pipeline(graph(sessions={"max_sessions": 2})) as pipeline:
        versions = pipeline.versions
        async with pipeline.session():
            versions.adopt(await versions.start(graph(tag="new", sessions={"max_sessions": 2})))
            async with pipeline.session():
                with pytest.raises(MotetError, match="all 2 sessions are taken"):
                    pipeline.session()


async def test_leaving_stops_a_start_under_way_and_frees_what_was_loaded() -> None:
    async with Pipeline(graph()) as pipeline:
        start = asyncio.create_task(pipeline.versions.start(graph(tag="new", slow_load=True)))
        await until(lambda: Tag.slow == 1)
    with pytest.raises(Conflict, match="shutting down"):
        await start
    assert Tag.closes == Tag.loads


async def test_components_elsewhere_cannot_be_changed_from_here() -> None:
    places = {"a": "localhost:1", "b": "localhost:2"}
    runtime = RemoteRuntime(graph(), places)
    with pytest.raises(SpecError, match=r"nodes\.b\.options: its replicas run elsewhere"):
        runtime.successor(graph(tag="new"), "2")
    runtime.successor(graph(sessions={"max_sessions": 3}), "2")


async def test_nothing_takes_over_once_the_server_has_ended() -> None:
    async with Pipeline(graph()) as pipeline:
        version = await pipeline.versions.start(graph(tag="new"))
    with pytest.raises(Conflict, match="shutting down"):
        pipeline.versions.adopt(version)
    assert Tag.closes == Tag.loads == {"a same": 1, "b old": 1, "b new": 1}
