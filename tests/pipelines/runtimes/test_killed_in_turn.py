"""Two components of two replicas each, killed one after the other while runs go through both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

import psutil
import pytest
from runtimes import until

from motet.components.frames import End, Fault, Frame, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.spec import PipelineSpec

pytestmark = pytest.mark.timeout(180)
NODE = {"use": "workerfakes:Worker", "scale": {"min_replicas": 2, "max_replicas": 2}}
SPEC = {"name": "t", "nodes": {"a": NODE, "b": NODE}, "edges": ["input -> a -> b -> output"]}
NAP = TextInput("nap")


def workers() -> set[int]:
    found: set[int] = set()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "motet.pipelines.runtimes.child" in one.cmdline():
                found.add(one.pid)
    return found


async def test_nothing_is_lost_but_what_was_under_way_on_the_killed_replica() -> None:
    made = WorkersRuntime(build(PipelineSpec.model_validate(SPEC)), drain_s=1.0)
    turns: list[tuple[float, float, list[Frame]]] = []
    kills: list[tuple[float, float]] = []
    over = asyncio.Event()

    def ready() -> bool:
        return all(sum(r.state == "ready" for r in n.replicas) == 2 for n in made.status())

    async def load(pipeline: Pipeline) -> None:
        async with pipeline.session() as session:
            number = 0
            while not over.is_set():
                number += 1
                began_s, frames = time.monotonic(), list[Frame]()
                session.start(number, NAP)
                while not frames or not isinstance(frames[-1], End):
                    frames.append((await anext(session))[2])
                turns.append((began_s, time.monotonic(), frames))

    async with Pipeline(made.graph, made) as pipeline, asyncio.TaskGroup() as group:
        await until(ready)
        for _ in range(8):
            group.create_task(load(pipeline))
        for pid in workers():
            more = len(turns) + 12
            await until(lambda more=more: len(turns) >= more)
            killed_s = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: pid not in workers())
            # A busy machine takes its time to end a process, and this one its turn to hear of it:
            # until then it may be given a run.
            await asyncio.sleep(0.02)
            kills.append((killed_s, time.monotonic()))
            await until(ready)
        over.set()
    assert len(kills) == 4
    faults = 0
    survived = 0
    for began_s, ended_s, frames in turns:
        cut = any(began_s <= gone_s and killed_s <= ended_s for killed_s, gone_s in kills)
        if isinstance(frames[0], Fault):
            assert cut, "only what was under way may fail"
            assert frames[0].code == "replica_gone"
            faults += 1
        else:
            assert frames == [NAP, End()]
            survived += cut
    assert faults > 0
    assert survived > 0, "the other replicas' runs went on"
