"""What is killed takes only itself along: replicas under load, and parents of busy workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
import pytest

from motet.components.frames import Data, End, Fault, Frame, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.runtimes.link import LinkSettings
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.spec import PipelineSpec

pytestmark = pytest.mark.timeout(120)

CLIENTS = 4
NODES = ("first", "second")


def made(*, heartbeat_s: float = 0.2) -> WorkersRuntime:
    scale = {"min_replicas": 2, "max_replicas": 2, "concurrency": 8}
    nodes = {name: {"use": "workerfakes:Pass", "scale": scale} for name in NODES}
    spec = {"name": "t", "nodes": nodes, "edges": ["input -> first -> second -> output"]}
    link = LinkSettings(heartbeat_s=heartbeat_s, patience_s=10.0)
    return WorkersRuntime(build(PipelineSpec.model_validate(spec)), link=link, drain_s=1.0)


def ready(runtime: WorkersRuntime) -> list[int]:
    return [sum(one.state == "ready" for one in node.replicas) for node in runtime.status()]


@dataclass
class Client:
    """Asks one request after the other and notes how each ended."""

    name: str
    answered: int = 0
    path: list[object] = field(default_factory=list[object])
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    odd: list[object] = field(default_factory=list[object])

    async def work(self, pipeline: Pipeline, over: asyncio.Event) -> None:
        async with pipeline.session() as session:
            number = 0
            while not over.is_set():
                number += 1
                session.start(number, TextInput(f"{self.name} {number}"))
                found: list[Frame] = []
                async with asyncio.timeout(40):
                    async for turn, _, frame in session:
                        if turn == number and isinstance(frame, End):
                            break
                        found.append(frame)
                self.note(number, found)

    def note(self, number: int, found: list[Frame]) -> None:
        fault = next((frame for frame in found if isinstance(frame, Fault)), None)
        if fault is not None:
            self.faults.append((fault.code, fault.message))
        elif (
            len(found) == 1
            and isinstance(found[0], Data)
            and found[0].value["text"] == (f"{self.name} {number}")
        ):
            self.answered += 1
            self.path = found[0].value["path"]
        else:
            self.odd.append(found)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(40):
        while not condition():  # noqa: ASYNC110 - what is awaited is another process
            await asyncio.sleep(0.02)


async def go_on(clients: list[Client]) -> None:
    """Wait until every client has had answers to requests of from now on."""
    goal = [client.answered + 5 for client in clients]
    await until(lambda: all(c.answered >= wanted for c, wanted in zip(clients, goal, strict=True)))


async def test_nothing_is_lost_but_what_ran_on_the_replica_that_died() -> None:
    runtime = made()
    async with Pipeline(runtime.graph, runtime) as pipeline:
        await until(lambda: ready(runtime) == [2, 2])
        clients = [Client(str(n)) for n in range(CLIENTS)]
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.work(pipeline, over))
            for place in range(4):
                await go_on(clients)
                # Each node twice, in turn: whichever of its replicas answered last.
                victim = clients[place].path[place % 2]
                assert isinstance(victim, int)
                os.kill(victim, signal.SIGKILL)
                await go_on(clients)
                await until(lambda pid=victim: not psutil.pid_exists(pid))
                await until(lambda: ready(runtime) == [2, 2])
            over.set()
    faults = [fault for client in clients for fault in client.faults]
    assert all(client.odd == [] for client in clients)
    assert {code for code, _ in faults} <= {"replica_gone"}
    assert all("is gone" in message for _, message in faults)
    assert len(faults) <= CLIENTS * 4, "at most one request of each client a kill"


async def test_what_is_stopped_gets_nothing_new_while_another_answers() -> None:
    """So a conversation's next turn goes elsewhere long before its replica is given up."""
    runtime = made(heartbeat_s=1.0)
    async with Pipeline(runtime.graph, runtime) as pipeline, pipeline.session() as session:
        await until(lambda: ready(runtime) == [2, 2])

        async def path(number: int) -> list[int]:
            session.start(number, TextInput("x"))
            found = [(await anext(session))[2] for _ in range(2)]
            assert isinstance(found[0], Data), found
            return found[0].value["path"]

        home, _ = await path(1)
        os.kill(home, signal.SIGSTOP)
        crew = runtime._crews["first"]
        await until(lambda: [one.silent for one in crew.replicas.values()].count(True) == 1)
        assert home not in {(await path(number))[0] for number in range(2, 6)}


PARENT = textwrap.dedent(
    """
    import asyncio, sys
    from motet.components.frames import TextInput
    from motet.pipelines import Pipeline, build
    from motet.pipelines.runtimes.workers import WorkersRuntime
    from motet.pipelines.spec import PipelineSpec

    async def main():
        nodes = {name: {"use": "workerfakes:Worker"} for name in "ab"}
        spec = {"name": "t", "nodes": nodes, "edges": ["input -> a -> b -> output"]}
        graph = build(PipelineSpec.model_validate(spec))
        async with Pipeline(graph, WorkersRuntime(graph)) as pipeline, pipeline.session() as one:
            one.start(1, *(TextInput(text) for text in sys.argv[1:]))
            await anext(one)
            print("up", flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
    """
)


@pytest.mark.parametrize("busy", ["sleep", "spin"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_no_worker_outlives_its_parent(name: str, busy: str) -> None:
    """Also one in the middle of a run, whose engine may not stop when it is told to."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, "first", busy],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    workers = psutil.Process(parent.pid).children(recursive=True)
    assert len(workers) == 2
    parent.send_signal(getattr(signal, name))
    parent.wait(60)
    parent.stdout.close()
    gone, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
    assert len(gone) == 2
