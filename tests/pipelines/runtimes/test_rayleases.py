"""Leases on Ray: as many are asked for as runs wait, and they go out in the queue's order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from motet.components.base import Context
from motet.components.errors import ComponentFailed, Overloaded
from motet.pipelines.runtimes.ray.leases import Granted, Leases
from motet.pipelines.spec import Queue


class Ray:
    """Grants what is asked in order, when told; knows what is asked and what is held."""

    def __init__(self) -> None:
        self.asked: deque[asyncio.Future[Granted]] = deque()
        self.held = 0

    async def ask(self) -> Granted:
        future: asyncio.Future[Granted] = asyncio.get_running_loop().create_future()
        self.asked.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            self.asked.remove(future)
            raise

    def grant(self) -> None:
        def cancel() -> None:
            self.held -= 1

        self.held += 1
        held: Any = SimpleNamespace(cancel=cancel)
        self.asked.popleft().set_result(Granted(held, held))


class Runs:
    """Runs that wait for leases, by name."""

    def __init__(self, order: str) -> None:
        self.ray = Ray()
        queue = Queue.model_validate({"bound": 0, "order": order})
        self.leases = Leases(queue, self.ray.ask, where="a")
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.served: list[str] = []

    async def ask(self, name: str, *, priority: int = 0, key: str = "") -> None:
        async def run() -> None:
            await self.leases.get(Context(priority=priority, key=key))
            self.served.append(name)

        self.tasks[name] = asyncio.create_task(run())
        await settle()

    async def grant(self, count: int) -> None:
        for _ in range(count):
            self.ray.grant()
            await settle()


@pytest.fixture
async def runs(request: pytest.FixtureRequest) -> AsyncIterator[Runs]:
    made = Runs(getattr(request, "param", "fifo"))
    yield made
    await made.leases.close()
    await asyncio.gather(*made.tasks.values(), return_exceptions=True)
    assert not made.ray.asked
    assert len(made.leases) == 0


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("runs", "served"),
    [
        ("fifo", ["low", "first", "second", "high"]),
        ("priority", ["high", "first", "low", "second"]),
    ],
    indirect=["runs"],
)
async def test_the_next_lease_is_for_the_run_that_is_next(runs: Runs, served: list[str]) -> None:
    for name, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 3)):
        await runs.ask(name, priority=priority)
    assert len(runs.ray.asked) == 4, "Ray counts each of them"
    await runs.grant(4)
    assert runs.served == served


async def test_a_key_that_floods_does_not_keep_the_others_waiting(runs: Runs) -> None:
    for number in range(5):
        await runs.ask(f"flood {number}", key="flood")
    await runs.ask("other", key="other")
    await runs.grant(6)
    assert runs.served.index("other") <= 1


async def test_runs_that_are_given_up_are_not_asked_for(runs: Runs) -> None:
    for name in ("first", "second", "third"):
        await runs.ask(name)
    latest = runs.ray.asked[-1]
    runs.tasks["first"].cancel()
    await settle()
    assert latest.cancelled(), "what was asked first is granted first"
    assert len(runs.ray.asked) == len(runs.leases) == 2
    await runs.grant(2)
    assert runs.served == ["second", "third"]


@pytest.mark.parametrize("others", [0, 1])
async def test_a_lease_that_comes_as_its_run_is_cancelled_is_handed_on(
    runs: Runs, others: int
) -> None:
    for number in range(1 + others):
        await runs.ask(str(number))
    runs.ray.grant()
    while len(runs.leases) > others:  # noqa: ASYNC110 - the very step in which it comes
        await asyncio.sleep(0)
    runs.tasks["0"].cancel()
    await settle()
    assert runs.served == ["1"] * others
    assert runs.ray.held == others, "held by a run, or given back"
    assert not runs.ray.asked


async def test_what_asking_raises_is_for_one_run(runs: Runs) -> None:
    for name in ("first", "second"):
        await runs.ask(name)
    runs.ray.asked.popleft().set_exception(Overloaded("told to be full"))
    await settle()
    with pytest.raises(Overloaded):
        await runs.tasks["first"]
    await runs.grant(1)
    assert runs.served == ["second"]


async def test_who_waits_at_the_end_is_told(runs: Runs) -> None:
    await runs.ask("first")
    await runs.leases.close()
    with pytest.raises(ComponentFailed, match="stopping"):
        await runs.tasks["first"]
