"""A plan beside what is served: the same arrivals, counted the same way."""

from __future__ import annotations

from typing import Any

import pytest

from motet.components.frames import Message, Prompt
from motet.pipelines import Graph, build
from motet.pipelines.plan.inputs import Habits
from motet.pipelines.plan.profile import NodeProfile, Profile, Run
from motet.pipelines.spec import PipelineSpec
from motet.streaming.bench.plan import Comparison, Found, Load, planned, render, serve

PROMPT = Prompt((Message("user", "hello"),))
PROFILE = Profile(nodes={"llm": NodeProfile(runs=[Run(first_s=0.01, busy_s=0.01)])})


def graph(**options: Any) -> Graph:
    llm = {"use": "fakes:Answer", "options": options}
    spec = {"name": "t", "nodes": {"llm": llm}, "edges": ["input -> llm -> output"]}
    return build(PipelineSpec.model_validate(spec))


async def test_every_request_is_served_and_planned() -> None:
    made, load = graph(), Load(4, 2.0, Habits(think_s=0.4, seed=3))
    arrivals = len(load.arrivals(made))
    assert arrivals > 10
    served = await serve(made, "local", [PROMPT], load)
    plan = planned(made, PROFILE, load)
    # What arrives at the very end may not be answered any more, and a busy machine is late.
    assert arrivals / 2 <= served.turns <= arrivals
    assert arrivals - 3 <= plan.turns <= arrivals
    assert served.failed == plan.failed == 0
    assert 0 < served.p50_s <= served.p95_s
    assert served.replicas == plan.replicas == {"llm": 1.0}


async def test_faults_are_counted_and_no_latency() -> None:
    load = Load(2, 1.0, Habits(think_s=0.3, seed=1))
    served = await serve(graph(fail=True), "local", [PROMPT], load)
    assert served.turns == 0
    assert served.failed > 0


def test_the_table_says_how_far_off_the_plan_was() -> None:
    load = Load(4, 60.0, Habits())
    found = [Found(100, 0, 0.5, one, (0.9, 1.3), {"llm": 2.0}, {"llm": 3.0}) for one in (1.2, 1.0)]
    table = render([Comparison(load, *found)])
    assert "| 4 | p95, s | 1.2 (0.9 to 1.3) | 1 (0.9 to 1.3) | +20% |" in table
    assert "| 4 | failed | 0 | 0 |  |" in table
    assert "| 4 | replicas of llm | 2 | 2 | +0% |\n| 4 | most of llm | 3 | 3 | +0% |" in table


def test_a_surge_has_most_of_its_turns_in_the_middle() -> None:
    load = Load(40, 90.0, Habits(think_s=1.0), surge=True)
    begins_s = [arrival.at_s for arrival in load.arrivals(graph())]
    thirds = [sum(30 * part <= at < 30 * part + 30 for at in begins_s) for part in range(3)]
    assert thirds[1] == pytest.approx(1200, rel=0.1)
    assert [thirds[0], thirds[2]] == pytest.approx([300, 300], rel=0.2)


@pytest.mark.slow
async def test_a_conversation_thinks_between_its_turns() -> None:
    nodes = {"asr": {"use": "fakes:Hear"}, "llm": {"use": "fakes:Answer"}}
    edges = ["input -> asr -> conversation", "conversation -> llm -> output"]
    spec = {"name": "t", "nodes": nodes, "edges": edges, "conversation": {}}
    made = build(PipelineSpec.model_validate(spec))
    load = Load(4, 1.5, Habits(session_s=1.0, think_s=0.1, seed=2))
    served = await serve(made, "local", [PROMPT], load)
    plan = planned(made, PROFILE, load)
    assert served.failed == plan.failed == 0
    assert len(load.arrivals(made)) < served.turns
    assert len(load.arrivals(made)) < plan.turns
