"""Profiles: each node measured by itself, on what it gets in a whole turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from motet.components.base import Component, Context
from motet.components.errors import BadInput
from motet.components.frames import Frame, Message, Prompt, TextDelta
from motet.pipelines import Graph, build
from motet.pipelines.plan.profile import Run, needs
from motet.pipelines.spec import PipelineSpec
from motet.streaming.bench import profile as bench
from motet.streaming.bench.profile import measure
from motet.streaming.bench.samples import samples_of


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PAUSE_S", 0.01)
    monkeypatch.setattr(bench, "IDLE_S", 0.3)
    monkeypatch.setattr(bench, "LISTEN_S", 0.1)


def graph(*edges: str, conversation: bool = False, **nodes: dict[str, Any]) -> Graph:
    spec: dict[str, Any] = {"name": "t", "nodes": nodes, "edges": list(edges)}
    if conversation:
        spec["conversation"] = {}
    return build(PipelineSpec.model_validate(spec))


def answer(**options: Any) -> dict[str, Any]:
    return {"use": "fakes:Answer", "options": options, "scale": {"concurrency": 4}}


async def test_a_node_is_measured_alone_and_among_others() -> None:
    made = graph("input -> llm -> output", llm=answer(delay_s=0.01))
    found = await measure(made, samples_of(made), turns=6, levels=[1, 3])
    runs = found.nodes["llm"].runs
    assert [run.active for run in runs[:6]] == pytest.approx([1.0] * 6)
    assert len(runs[6:]) == 12, "several of each that is at work"
    assert 2 < statistics.mean(run.active for run in runs[6:]) <= 3 + 1e-9
    assert min(run.first_s for run in runs) >= 0.01
    assert all(run.first_s <= run.busy_s for run in runs)
    assert found.cores >= 1


async def test_a_node_that_waits_uses_no_core_and_one_that_works_does() -> None:
    made = graph(
        "input -> llm -> busy -> output", llm=answer(delay_s=0.02), busy={"use": f"{__name__}:Busy"}
    )
    found = await measure(made, samples_of(made), turns=5, levels=[1])
    llm, busy = (statistics.mean(r.cpu_s for r in found.nodes[n].runs) for n in ("llm", "busy"))
    assert busy >= 0.05, "what it uses when idle is taken off"
    assert llm < busy / 2


async def test_who_listens_costs_something_all_the_time() -> None:
    edges = ("input -> asr -> conversation", "conversation -> llm -> output")
    made = graph(*edges, conversation=True, asr={"use": "fakes:Hear"}, llm=answer())
    found = await measure(made, samples_of(made), turns=2, levels=[1])
    assert set(found.nodes) == {"asr", "llm"}
    assert found.nodes["asr"].standing_cores >= 0


async def test_each_line_of_a_file_is_a_sample(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n\n two \n", encoding="utf-8")
    made = graph("input -> llm -> output", llm=answer())
    samples = samples_of(made, lines)
    assert samples == [Prompt((Message("user", text),)) for text in ("one", "two")]
    found = await measure(made, samples, turns=4, levels=[1])
    assert sorted(run.sample for run in found.nodes["llm"].runs) == [0, 0, 1, 1]
    tts = graph("input -> tts -> output", tts={"use": "fakes:Say"})
    assert samples_of(tts, lines)[0] == TextDelta("one")
    lines.write_text(" \n")
    with pytest.raises(BadInput, match="has no text"):
        samples_of(made, lines)
    with pytest.raises(BadInput, match="takes none of Prompt"):
        samples_of(graph("input -> asr -> output", asr={"use": "fakes:Hear"}))


def test_what_a_node_needs_of_the_one_before() -> None:
    firsts = [(0.05, 0.0), (0.15, 0.25), (0.45, 1.0), (0.9, 1.0), (0.01, 0.0)]
    before = [Run(first_s=0.1, busy_s=0.5)] * len(firsts)
    whole = [Run(first_s=first_s, busy_s=1.0) for first_s, _ in firsts]
    alone = [Run(first_s=0.05, busy_s=0.2, sample=turn) for turn in range(len(firsts))]
    found = needs(before, whole, alone)
    assert [one.share for one in found] == pytest.approx([share for _, share in firsts])
    assert [one.rest_s for one in found] == pytest.approx([0.4] * len(firsts))
    assert needs(before, whole[1:], alone) == []


class Busy(Component):
    """Keeps a core busy for 100 ms."""

    accepts = (TextDelta,)
    emits = (TextDelta,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for _ in frames:
            pass
        until_s = time.thread_time() + 0.1
        while time.thread_time() < until_s:
            pass
        yield TextDelta("done")
