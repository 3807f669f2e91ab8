"""One file over all replicas of its transcriber: who decodes, who dies, what grows and shrinks."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from filefakes import recording
from runtimes import graph, idle, turn, until

from motet.components.frames import Data, End, Frame, MediaFile, Segment
from motet.pipelines import Pipeline
from motet.pipelines.runtimes.base import Runtime
from motet.pipelines.runtimes.local import LocalRuntime
from motet.pipelines.runtimes.workers import WorkersRuntime
from motet.pipelines.session import Session

pytestmark = pytest.mark.timeout(120)


def made(kind: type[Any], gate: Path, **scale: Any) -> Any:
    """A transcriber whose batches end once the file `gate` is there."""
    nodes = {"asr": {"resources": {"cpus": 1}}}
    options = {"gate": str(gate), "batch": 2}
    edges = ["input -> asr -> output"]
    of = graph({"asr": "filefakes:StandIn"}, edges, scale=scale, options=options, nodes=nodes)
    return kind(of)


@asynccontextmanager
async def transcribing(runtime: Runtime) -> AsyncIterator[tuple[Pipeline, Session]]:
    async with Pipeline(runtime.graph, runtime) as pipeline, pipeline.session() as session:  # type: ignore[attr-defined]
        yield pipeline, session


def active(pipeline: Pipeline) -> dict[str, int]:
    """Runs on each replica that is ready."""
    (node,) = pipeline.runtime.status()
    return {one.id: one.active for one in node.replicas if one.state == "ready"}


def text_of(frames: list[Frame]) -> tuple[set[int], list[str]]:
    """Which processes decoded it, and what they said apart from that, in order."""
    *_, result, end = frames
    assert end == End()
    assert isinstance(result, Data), result
    assert result.value["kind"] == "transcript"
    said = [frame.text for frame in frames if isinstance(frame, Segment)]
    assert " ".join(said) == result.value["text"]
    parts = [re.fullmatch(r"(\d+) (heard .*)", one) for one in said]
    return {int(one[1]) for one in parts if one}, [one[2] for one in parts if one]


async def expected(file: MediaFile, folder: Path) -> list[str]:
    async with transcribing(made(LocalRuntime, folder)) as (_, session):
        session.start(1, file)
        _, said = text_of(await turn(session, 1))
        return said


async def test_every_replica_decodes_some_and_a_killed_one_costs_nothing(tmp_path: Path) -> None:
    file, gate = recording(tmp_path / "a.wav", 10, 8.0), tmp_path / "go"
    said = await expected(file, tmp_path)
    assert len(said) == 60
    workers: WorkersRuntime = made(WorkersRuntime, gate, min_replicas=3, max_replicas=3)
    crew = workers._crews["asr"]

    async with transcribing(workers) as (pipeline, session):
        await until(lambda: len(active(pipeline)) == 3)
        session.start(1, file)
        await until(lambda: sorted(active(pipeline).values()) == [1, 1, 1])
        gate.touch()
        pids, got = text_of(await turn(session, 1))
        assert pids == {worker.pid for worker in crew.replicas.values()}
        assert got == said
        await until(lambda: idle(pipeline))

        gate.unlink()
        session.start(2, file)
        await until(lambda: sorted(active(pipeline).values()) == [1, 1, 1])
        # The session's home is the replica that has its run.
        home = crew.pool._router._homes[f"session {session.id}"]
        victim = crew.replicas[max(crew.replicas.keys() - {home})].pid
        os.kill(victim, signal.SIGKILL)
        await until(lambda: len(active(pipeline)) == 2)
        gate.touch()
        pids, got = text_of(await turn(session, 2))
        assert victim not in pids
        assert got == said

        gate.unlink()
        session.start(3, file)
        await until(lambda: sum(active(pipeline).values()) >= 2)
        session.interrupt(3)
        assert (await turn(session, 3))[-1] == End(interrupted=True)
        await until(lambda: idle(pipeline))


async def test_one_long_file_grows_the_node_which_shrinks_behind_it(tmp_path: Path) -> None:
    file, gate = recording(tmp_path / "a.wav", 20, 8.0), tmp_path / "go"
    scale = {"max_replicas": 3, "window_s": 1.0, "scale_down_delay_s": 1.0}
    async with transcribing(made(WorkersRuntime, gate, **scale)) as (pipeline, session):
        assert len(active(pipeline)) == 1
        session.start(1, file)
        await until(lambda: list(active(pipeline).values()) == [1, 1, 1])
        gate.touch()
        pids, said = text_of(await turn(session, 1))
        assert len(said) == 120
        assert len(pids) == 3
        await until(lambda: len(active(pipeline)) == 1)
