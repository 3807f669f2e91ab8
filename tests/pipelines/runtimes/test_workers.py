"""Worker processes: scaled by load, replaced when they die, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest
from runtimes import turn

from motet.components.errors import ComponentFailed, MissingRequirement
from motet.components.frames import Data, Fault, Frame, Message, Prompt, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.runtimes.devices import Devices
from motet.pipelines.runtimes.link import LinkSettings
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.session import Session
from motet.pipelines.spec import PipelineSpec

pytestmark = pytest.mark.timeout(120)


def runtime(use: str = "workerfakes:Worker", **node: Any) -> WorkersRuntime:
    link = node.pop("link", LinkSettings(heartbeat_s=0.2, patience_s=10.0))
    spec = {"name": "t", "nodes": {"a": {"use": use, **node}}, "edges": ["input -> a -> output"]}
    return WorkersRuntime(build(PipelineSpec.model_validate(spec)), link=link, drain_s=1.0)


@asynccontextmanager
async def serving(made: WorkersRuntime) -> AsyncIterator[Pipeline]:
    async with Pipeline(made.graph, made) as pipeline:
        yield pipeline
    assert children() == []


def children() -> list[psutil.Process]:
    """The worker processes of this one."""
    return [one for one in psutil.Process().children(recursive=True) if _is_worker(one)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "motet.pipelines.runtimes.child" in process.cmdline()
    except psutil.Error:
        return False


async def ask(session: Session, number: int, *texts: str) -> list[Frame]:
    session.start(number, *(TextInput(text) for text in texts))
    return (await turn(session, number))[:-1]


async def until(condition: Callable[[], bool], seconds: float = 40) -> float:
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited is another process
            await asyncio.sleep(0.01)
    return time.monotonic() - started


def ready(made: WorkersRuntime) -> int:
    return sum(one.state == "ready" for one in made.status()[0].replicas)


@pytest.mark.parametrize("text", ["die", "exit"])
async def test_a_dead_replica_fails_its_runs_alone_and_is_replaced(text: str) -> None:
    made = runtime(scale={"min_replicas": 2, "max_replicas": 2, "concurrency": 2})
    async with serving(made) as pipeline:
        await until(lambda: ready(made) == 2)
        async with pipeline.session() as session, pipeline.session() as other:
            session.start(1, TextInput("sleep"))
            await until(lambda: made.status()[0].active == 1)
            other.start(1, TextInput(text))
            _, _, fault = await anext(other)
            assert isinstance(fault, Fault)
            assert fault.code == "replica_gone"
            assert "is gone" in fault.message
            for number in range(2, 12):
                assert len(await ask(other, number, "pid")) == 1, "the next runs are fine at once"
            assert made.ready
            assert made.status()[0].active == 1, "the other replica's run goes on"
            await until(lambda: ready(made) == 2)


async def test_of_fifty_sessions_only_those_on_the_killed_replica_fail() -> None:
    scale = {"min_replicas": 3, "max_replicas": 3, "concurrency": 32}
    made = runtime(scale=scale)
    async with serving(made) as pipeline:
        await until(lambda: ready(made) == 3)
        pids: dict[int, int] = {}
        frames: Counter[int] = Counter()
        failed: set[int] = set()
        killed = asyncio.Event()

        async def talk(number: int) -> None:
            """A session at fifty frames a second, which goes on for a second after the kill."""
            async with pipeline.session() as session:
                session.open(1)
                await session.send(TextInput("pid"), turn=1)
                pids[number] = (await anext(session))[2].value  # type: ignore[attr-defined]
                after = 0
                while after < 50:
                    sent = TextInput("frame", frames[number])
                    await session.send(sent, turn=1)
                    _, _, frame = await anext(session)
                    if isinstance(frame, Fault):
                        assert killed.is_set()
                        assert frame.code == "replica_gone"
                        failed.add(number)
                        return
                    assert frame == sent, "nothing lost, doubled, or of another session"
                    frames[number] += 1
                    after += killed.is_set()
                    await asyncio.sleep(0.02)

        async def kill() -> None:
            await until(lambda: len(frames) == 50)
            killed.set()
            os.kill(pids[0], signal.SIGKILL)

        async with asyncio.TaskGroup() as group:
            group.create_task(kill())
            for number in range(50):
                group.create_task(talk(number))
        there = {number for number, pid in pids.items() if pid == pids[0]}
        assert 10 <= len(there) <= 25
        assert failed == there


async def test_readiness_goes_with_the_last_replica_and_comes_back() -> None:
    made = runtime()
    async with serving(made) as pipeline, pipeline.session() as session:
        assert made.ready
        (fault,) = await ask(session, 1, "die")
        assert isinstance(fault, Fault)
        assert not made.ready
        (answer,) = await ask(session, 2, "pid")
        assert isinstance(answer, Data), "it waited for the new replica"
        assert made.ready


async def test_a_frozen_replica_is_noticed_and_replaced() -> None:
    made = runtime(link=LinkSettings(heartbeat_s=0.2, patience_s=3.0))
    async with serving(made) as pipeline, pipeline.session() as session:
        (fault,) = await ask(session, 1, "freeze")
        assert isinstance(fault, Fault)
        assert "said nothing for" in fault.message
        assert isinstance((await ask(session, 2, "pid"))[0], Data)


async def test_load_grows_it_and_only_idle_replicas_go() -> None:
    scale = {"max_replicas": 3, "concurrency": 1, "window_s": 1.0, "scale_down_delay_s": 1.0}
    made = runtime(scale=scale)
    async with serving(made) as pipeline, pipeline.session() as session:
        for number in range(1, 4):
            session.start(number, TextInput("pid"), TextInput("sleep"))
        pids: set[object] = set()
        async with asyncio.timeout(40):
            while len(pids) < 3:
                _, _, frame = await anext(session)
                assert isinstance(frame, Data)
                pids.add(frame.value)
        assert ready(made) == 3
        session.interrupt(1)
        session.interrupt(2)
        await until(lambda: len(children()) == 1)
        await asyncio.sleep(0.7)
        assert made.status()[0].active == 1, "the run that goes on was not cut"
        assert children()[0].pid in pids


async def test_to_zero_and_the_first_run_wakes_it() -> None:
    made = runtime(
        "workerfakes:Loads",
        options={"load_s": 0.2},
        scale={"min_replicas": 0, "window_s": 0.5, "scale_down_delay_s": 0.5},
    )
    async with serving(made) as pipeline, pipeline.session() as session:
        assert made.ready
        assert children() == []
        assert len(await ask(session, 1, "pid")) == 1
        assert made.status()[0].replicas[0].started_s > 0.2
        await until(lambda: children() == [])
        assert len(await ask(session, 2, "pid")) == 1


async def test_a_session_stays_with_its_replica() -> None:
    made = runtime("workerfakes:Talk", scale={"min_replicas": 2, "max_replicas": 2})
    async with serving(made) as pipeline:
        await until(lambda: ready(made) == 2)
        places: dict[str, set[str]] = {}
        for _ in range(5):
            for name in ("s1", "s2"):
                async with pipeline.session(session_id=name) as session:
                    session.start(1, Prompt((Message("user", "who are you?"),)))
                    words = [await anext(session) for _ in range(3)]
                    places.setdefault(name, set()).add(words[-1][2].text)  # type: ignore[attr-defined]
        assert all(len(pids) == 1 for pids in places.values())


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"fails": True}, MissingRequirement, "the weights are not there"),
        ({"dies": True}, ComponentFailed, "exited with 9"),
    ],
)
async def test_what_fails_to_load_is_said_at_the_start(
    options: dict[str, object], kind: type[Exception], words: str
) -> None:
    made = runtime("workerfakes:Loads", options=options)
    with pytest.raises(kind, match=words):
        await made.start()
    assert children() == []


async def test_runs_that_wait_for_what_cannot_load_are_told() -> None:
    made = runtime("workerfakes:Loads", options={"fails": True}, scale={"min_replicas": 0})
    async with serving(made) as pipeline, pipeline.session() as session:
        (fault,) = await ask(session, 1, "pid")
        assert isinstance(fault, Fault)
        assert "the weights are not there" in fault.message


def test_shares_of_gpus() -> None:
    devices = Devices(("0", "1"))
    assert devices.take("none", 0) == {"CUDA_VISIBLE_DEVICES": ""}
    assert devices.take("a", 0.5) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert devices.take("b", 0.5) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert devices.take("c", 1) == {"CUDA_VISIBLE_DEVICES": "1"}
    with pytest.raises(MissingRequirement, match=r"d: needs 0\.25 GPUs; free here: 0: 0, 1: 0"):
        devices.take("d", 0.25)
    devices.give_back("b")
    assert devices.take("d", 0.25) == {"CUDA_VISIBLE_DEVICES": "0"}
    with pytest.raises(MissingRequirement, match="needs 2 GPUs"):
        devices.take("e", 2)
