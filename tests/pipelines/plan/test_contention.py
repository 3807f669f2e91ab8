"""Runs that meet on a replica in a plan: by hand, and against the theory of processor sharing."""

from __future__ import annotations

import random
import statistics

import pytest

from motet.pipelines import Graph, build
from motet.pipelines.plan.contention import Pace
from motet.pipelines.plan.inputs import Arrival
from motet.pipelines.plan.profile import NodeProfile, Profile, Run, ordered
from motet.pipelines.plan.simulation import Simulation
from motet.pipelines.spec import PipelineSpec

ALONE = [Run(first_s=0.25, busy_s=1.0, active=1)]
SHARED = [*ALONE, Run(first_s=0.5, busy_s=2.0, active=2)]
"""One engine that those who meet share evenly."""


def times(
    runs: list[Run], begins_s: list[float], concurrency: int = 8, *, in_order: bool = False
) -> list[float]:
    """The times to the first output of requests that begin then, as they come out."""
    node = {"use": "workerfakes:Worker", "scale": {"concurrency": concurrency}}
    spec = {"name": "t", "nodes": {"a": node}, "edges": ["input -> a -> output"]}
    graph: Graph = build(PipelineSpec.model_validate(spec))
    profile = Profile(nodes={"a": NodeProfile(runs=runs, in_order=in_order)})
    arrivals = [Arrival(at_s, 0.0) for at_s in begins_s]
    simulation = Simulation(graph, profile, {"a": concurrency})
    outcome = simulation.run(arrivals, max(begins_s) + 1000)
    return [took_s for _, took_s in outcome.latencies_s]


def whole(runs: list[Run]) -> list[Run]:
    """The same, with the first output at the very end."""
    return [run.model_copy(update={"first_s": run.busy_s}) for run in runs]


def test_a_run_is_slowed_by_those_that_join_it_and_by_no_other() -> None:
    # Alone until 0.5, at half its pace until 1.5; the second has half of its work left then.
    assert times(whole(SHARED), [0.0, 0.5]) == pytest.approx([1.5, 1.5])
    assert times(whole(SHARED), [0.0, 1.0]) == pytest.approx([1.0, 1.0])


def test_in_order_the_first_is_as_soon_as_alone_and_the_others_wait_for_it() -> None:
    assert times(whole(SHARED), [0.0, 0.5, 0.6], in_order=True) == pytest.approx([1.0, 1.5, 2.4])


def test_a_profile_tells_runs_in_order_from_runs_side_by_side() -> None:
    def in_order(*first_s: float) -> bool:
        burst = [Run(first_s=one, busy_s=one, active=2.5) for one in first_s]
        return ordered(whole(ALONE), [burst] * 3)

    assert in_order(1.0, 2.0, 3.0, 4.0)
    assert in_order(4.1, 3.1, 2.1, 1.2)
    assert not in_order(3.7, 4.0, 3.9, 3.8), "side by side: all are late"
    assert not in_order(1.0, 1.1, 1.0, 1.2), "nobody waits for anybody"


def test_what_was_never_measured_together_is_not_slowed() -> None:
    assert times(whole(ALONE), [0.0, 0.0, 0.0]) == pytest.approx([1.0] * 3)


def test_more_than_were_measured_are_slower_by_as_much_again() -> None:
    assert times(whole(SHARED), [0.0] * 5) == pytest.approx([5.0] * 5)


def test_the_way_to_the_first_output_has_a_pace_of_its_own() -> None:
    runs = [Run(first_s=0.2, busy_s=1.2), Run(first_s=0.8, busy_s=1.8, active=2)]
    assert times(runs, [0.0, 0.0]) == pytest.approx([0.8, 0.8])
    pace = Pace(NodeProfile(runs=runs), 4)
    assert [pace.first.of(active) for active in (1, 2, 3)] == pytest.approx([1.0, 4.0, 7.0])
    assert [pace.rest.of(active) for active in (1, 2, 3)] == pytest.approx([1.0, 1.0, 1.0])


def test_a_run_takes_what_was_measured_on_its_sample() -> None:
    runs = [Run(first_s=at, busy_s=at, sample=at - 1) for at in (1, 2, 3)]
    pace = Pace(NodeProfile(runs=runs), 1)
    assert [pace.draw(1, random.Random(), sample)[0] for sample in range(3)] == [1, 2, 3]


def test_few_runs_at_a_number_say_nothing() -> None:
    odd = Run(first_s=9.0, busy_s=9.0, active=4)
    runs = [run for run in whole(SHARED) for _ in range(20)]
    assert Pace(NodeProfile(runs=[*runs, odd]), 8).first.of(8) == pytest.approx(8.0)


def test_company_never_makes_a_run_faster() -> None:
    runs = whole([Run(first_s=1.0, busy_s=1.0), Run(first_s=0.9, busy_s=0.9, active=2)])
    assert [Pace(NodeProfile(runs=runs), 4).first.of(active) for active in (1, 2, 4)] == [
        1.0,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("load", [0.4, 0.7])
def test_times_are_those_of_queueing_theory(load: float, in_order: bool) -> None:
    """Mean times in an M/G/1 queue: with processor sharing S / (1 - load), whatever the
    distribution of S (Kleinrock 1967); in order by Pollaczek and Khinchine."""
    chance = random.Random(7)
    lengths_s = [chance.choice([0.02, 0.1, 0.3]) for _ in range(300)]
    runs = [
        Run(first_s=factor * one, busy_s=factor * one, active=factor)
        for factor in (1, 2)
        for one in lengths_s
    ]
    mean_s, now_s, begins_s = statistics.mean(lengths_s), 0.0, list[float]()
    for _ in range(4000):
        now_s += chance.expovariate(load / mean_s)
        begins_s.append(now_s)
    took_s = times(runs, begins_s, concurrency=500, in_order=in_order)
    assert len(took_s) == len(begins_s)
    squares = statistics.mean(one**2 for one in lengths_s)
    waits_s = load / mean_s * squares / 2 / (1 - load)
    expected_s = mean_s + waits_s if in_order else mean_s / (1 - load)
    assert statistics.mean(took_s) == pytest.approx(expected_s, rel=0.12)
