"""Two components, two replicas each, killed in turn under load: only what ran there is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass, field

import pytest

from motet.components.frames import Data, End, Fault, Frame, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.runtimes.link import LinkSettings
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.spec import PipelineSpec

pytestmark = pytest.mark.timeout(60)

CLIENTS = 4
NODES = ("first", "second")


def made() -> WorkersRuntime:
    scale = {"min_replicas": 2, "max_replicas": 2, "concurrency": 8}
    nodes = {name: {"use": "workerfakes:Pass", "scale": scale} for name in NODES}
    spec = {"name": "t", "nodes": nodes, "edges": ["input -> first -> second -> output"]}
    link = LinkSettings(heartbeat_s=0.2, patience_s=5.0)
    return WorkersRuntime(build(PipelineSpec.model_validate(spec)), link=link, drain_s=1.0)


def ready(runtime: WorkersRuntime) -> list[int]:
    return [sum(one.state == "ready" for one in node.replicas) for node in runtime.status()]


@dataclass
class Client:
    """Asks one request after the other and notes how each ended."""

    name: str
    answered: int = 0
    path: list[object] = field(default_factory=list[object])
    faults: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    odd: list[object] = field(default_factory=list[object])

    async def work(self, pipeline: Pipeline, over: asyncio.Event) -> None:
        async with pipeline.session() as session:
            number = 0
            while not over.is_set():
                number += 1
                session.start(number, TextInput(f"{self.name} {number}"))
                found: list[Frame] = []
                async with asyncio.timeout(20):
                    async for turn, _, frame in session:
                        if turn == number and isinstance(frame, End):
                            break
                        found.append(frame)
                self.note(number, found)

    def note(self, number: int, found: list[Frame]) -> None:
        fault = next((frame for frame in found if isinstance(frame, Fault)), None)
        if fault is not None:
            self.faults.append((time.monotonic(), fault.code, fault.message))
        elif (
            len(found) == 1
            and isinstance(found[0], Data)
            and found[0].value["text"] == (f"{self.name} {number}")
        ):
            self.answered += 1
            self.path = found[0].value["path"]
        else:
            self.odd.append(found)


async def until(runtime: WorkersRuntime, wanted: list[int]) -> None:
    async with asyncio.timeout(20):
        while ready(runtime) != wanted:  # noqa: ASYNC110 - what is awaited is another process
            await asyncio.sleep(0.02)


async def test_nothing_is_lost_but_what_ran_on_the_replica_that_died() -> None:
    runtime = made()
    async with Pipeline(runtime.graph, runtime) as pipeline:
        await until(runtime, [2, 2])
        clients = [Client(str(n)) for n in range(CLIENTS)]
        over = asyncio.Event()
        kills: list[float] = []
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.work(pipeline, over))
            for place in range(4):
                await asyncio.sleep(0.4)
                # Each node twice, in turn: whichever of its replicas answered last.
                victim = clients[place].path[place % 2]
                assert isinstance(victim, int)
                before = sum(client.answered for client in clients)
                kills.append(time.monotonic())
                os.kill(victim, signal.SIGKILL)
                await until(runtime, [2, 2])
                await asyncio.sleep(0.2)
                assert sum(client.answered for client in clients) > before, "work goes on"
            over.set()
    faults = [fault for client in clients for fault in client.faults]
    assert all(client.odd == [] for client in clients)
    assert {code for _, code, _ in faults} <= {"component_failed"}
    assert all("is gone" in message for _, _, message in faults)
    assert len(faults) <= CLIENTS * len(kills), "at most one request of each client a kill"
    for at_s, _, message in faults:
        assert any(0 <= at_s - kill_s < 5 for kill_s in kills), message
    assert sum(client.answered for client in clients) > 20 * CLIENTS
