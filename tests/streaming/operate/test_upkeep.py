"""Tasks that a server can't do without: told when they end, begun again, known to be down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from motet.streaming.operate import upkeep
from motet.streaming.operate.upkeep import LONGEST_WAIT_S, STEADY_S, Part, Run, Upkeep, Watch


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FIRST_WAIT_S", 0.01)


@asynccontextmanager
async def kept(run: Run, mend: Callable[[], object] | None = None):
    """An upkeep that keeps one task, "worker"."""
    made = Upkeep()
    task = asyncio.create_task(made.keep("worker", run, mend=mend))
    try:
        yield made
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what it waits for is plain state
            await asyncio.sleep(0.001)


def test_waits_double_up_to_the_longest_and_begin_again_after_a_steady_time(monkeypatch):
    monkeypatch.setattr(upkeep, "FIRST_WAIT_S", 0.5)
    part = Part("worker")
    waits = []
    for second in range(8):
        part.failed("broken", second)
        waits.append(part.again_s())
        part.works(second + 0.5)
    assert waits == [0.5, 1, 2, 4, 8, LONGEST_WAIT_S, LONGEST_WAIT_S, LONGEST_WAIT_S]
    part.failed("broken", 7.5 + STEADY_S + 1)
    assert part.again_s() == 0.5
    assert part.restarts == 9


def test_a_task_counts_as_down_from_its_failure_until_it_says_that_it_works():
    part = Part("worker")
    assert part.is_up
    assert part.failed("broken", 10)
    assert not part.failed("broken", 11), "the same again is no news"
    assert part.failed("worse", 12)
    assert (part.is_up, part.down_s(15)) == (False, 5)
    assert part.works(16)
    assert (part.is_up, part.down_s(17)) == (True, 0)


async def test_an_error_is_told_in_a_line_and_the_task_begins_again(caplog):
    runs, mended = [], []
    gate = asyncio.Event()

    async def run(watch: Watch) -> None:
        runs.append(watch)
        if len(runs) < 3:
            raise RuntimeError("no\nmore disk")
        await gate.wait()
        watch.works()
        await asyncio.Event().wait()

    async def mend() -> None:
        mended.append(len(runs))

    async with kept(run, mend) as made:
        await until(lambda: len(runs) == 3)
        assert made.down == ["worker"], "it hasn't said that it works"
        (task,) = made.status()
        assert (task["up"], task["reason"], task["restarts"]) == (
            False,
            "RuntimeError: no more disk",
            2,
        )
        registry = CollectorRegistry()
        registry.register(made)
        assert b'motet_task_up{task="worker"} 0.0' in generate_latest(registry)
        gate.set()
        await until(lambda: made.down == [])
        assert b'motet_task_restarts_total{task="worker"} 2.0' in generate_latest(registry)
    assert mended == [1, 2]
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert errors == ["worker is down: RuntimeError: no more disk"], "once, in a line"
    assert made.status() == []


async def test_a_task_that_just_returns_is_down_too():
    runs = []

    async def run(watch: Watch) -> None:
        runs.append(watch)

    async with kept(run) as made:
        await until(lambda: len(runs) > 1)
        assert made.status()[0]["reason"] == "it ended by itself"


async def test_what_it_says_itself_is_the_reason():
    async def run(watch: Watch) -> None:
        watch.failed("the listener broke")

    async with kept(run) as made:
        await until(lambda: bool(made.down))
        assert made.status()[0]["reason"] == "the listener broke"


async def test_it_does_not_begin_before_it_is_mended():
    runs, mends = [], []

    async def run(watch: Watch) -> None:
        runs.append(len(mends))
        if mends:
            watch.works()
            await asyncio.Event().wait()

    async def mend() -> None:
        mends.append(len(runs))
        if len(mends) < 3:
            raise OSError("no PostgreSQL")

    async with kept(run, mend) as made:
        await until(lambda: len(mends) == 2)
        assert made.status()[0]["reason"] == "OSError: no PostgreSQL"
        await until(lambda: made.down == [])
    assert runs == [0, 3]


async def test_a_cancellation_that_is_lost_within_ends_it_at_its_next_turn():
    begun = asyncio.Event()

    async def run(watch: Watch) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    task = asyncio.create_task(Upkeep().keep("worker", run))
    await begun.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
