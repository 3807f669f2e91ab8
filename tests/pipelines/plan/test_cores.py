"""Replicas that share a machine's cores in a plan: what holds always, and queueing theory."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.pipelines import Graph, build
from motet.pipelines.plan.cores import Machines, Room, shares
from motet.pipelines.plan.inputs import Arrival, Habits
from motet.pipelines.plan.outcome import Outcome
from motet.pipelines.plan.profile import Need, NodeProfile, Profile, Run
from motet.pipelines.plan.simulation import Simulation
from motet.pipelines.spec import PipelineSpec

WANTS = st.lists(st.floats(0.01, 8.0), min_size=1, max_size=8)
CORES = st.floats(0.5, 16.0)


def graph(concurrency: int = 64) -> Graph:
    node = {"use": "workerfakes:Worker", "scale": {"concurrency": concurrency}}
    spec = {"name": "t", "nodes": {"a": node}, "edges": ["input -> a -> output"]}
    return build(PipelineSpec.model_validate(spec))


def outcome(made: Graph, runs: list[Run], begins_s: list[float], room: Room | None) -> Outcome:
    """Requests that begin then."""
    places = made.nodes["a"].spec.scale.concurrency or 1
    profile = Profile(nodes={"a": NodeProfile(runs=runs)})
    simulation = Simulation(made, profile, {"a": places}, room=room)
    return simulation.run([Arrival(at_s, 0.0) for at_s in begins_s], max(begins_s) + 20)


def times(runs: list[Run], begins_s: list[float], concurrency: int, room: Room) -> list[float]:
    made = graph(concurrency)
    return [took_s for _, took_s in outcome(made, runs, begins_s, room).latencies_s]


def busy(seconds: float) -> Run:
    """A run that keeps one core busy."""
    return Run(first_s=seconds, busy_s=seconds, cpu_s=seconds)


@given(WANTS, CORES)
def test_cores_are_shared_fairly_and_none_is_idle_while_it_is_wanted(
    wants: list[float], cores: float
) -> None:
    given_cores = shares(wants, cores)
    assert sum(given_cores) == pytest.approx(min(cores, sum(wants)))
    assert all(got <= want + 1e-9 for got, want in zip(given_cores, wants, strict=True))
    evens = [got / max(1.0, want) for got, want in zip(given_cores, wants, strict=True)]
    for got, want, even in zip(given_cores, wants, evens, strict=True):
        assert got == pytest.approx(want) or even == pytest.approx(max(evens)), "the rest is even"


@pytest.mark.parametrize(
    ("jobs", "cores", "slowed"), [(1, 2, 1), (2, 2, 1), (3, 2, 1.5), (8, 2, 4)]
)
def test_equal_jobs_take_as_much_longer_as_they_outnumber_the_cores(
    jobs: int, cores: float, slowed: float
) -> None:
    took_s = times([busy(0.5)], [0.0] * jobs, 8, Room(cores))
    assert took_s == pytest.approx([0.5 * slowed] * jobs)


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=12))
def test_work_is_conserved(begins_s: list[float]) -> None:
    """The core is busy whenever there is work, so the last run ends when all that came is done."""
    found = outcome(graph(), [busy(0.3)], begins_s, Room(1))
    free_s = 0.0
    for begin_s in sorted(begins_s):
        free_s = max(free_s, begin_s) + 0.3
    assert max(at_s for at_s, _ in found.latencies_s) == pytest.approx(free_s)


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=12))
def test_with_cores_enough_nothing_is_slowed(begins_s: list[float]) -> None:
    runs = [busy(0.2), Run(first_s=0.1, busy_s=0.4, cpu_s=0.6, active=3)]
    made = graph()
    free, enough = (outcome(made, runs, begins_s, room) for room in (None, Room(100)))
    assert free.latencies_s == enough.latencies_s


def test_who_waits_is_not_slowed_and_slows_nobody() -> None:
    waits = Run(first_s=0.5, busy_s=0.5, cpu_s=0.005)
    assert times([waits], [0.0] * 40, 64, Room(1)) == pytest.approx([0.5] * 40)


@pytest.mark.parametrize("load", [0.4, 0.7])
def test_times_are_those_of_processor_sharing(load: float) -> None:
    """The mean time in an M/G/1 queue with processor sharing is S / (1 - load), whatever the
    distribution of S (Kleinrock 1967)."""
    chance = random.Random(11)
    runs = [busy(chance.choice([0.02, 0.1, 0.3])) for _ in range(300)]
    mean_s, now_s, begins_s = statistics.mean(run.busy_s for run in runs), 0.0, list[float]()
    for _ in range(6000):
        now_s += chance.expovariate(load / mean_s)
        begins_s.append(now_s)
    took_s = times(runs, begins_s, 500, Room(1))
    assert len(took_s) == len(begins_s)
    assert statistics.mean(took_s) == pytest.approx(mean_s / (1 - load), rel=0.12)


def test_nodes_of_one_machine_slow_each_other_and_those_of_two_do_not() -> None:
    chain = {"a": {"use": "workerfakes:Worker"}, "b": {"use": "workerfakes:Worker"}}
    spec = {"name": "t", "nodes": chain, "edges": ["input -> a -> b -> output"]}
    made = build(PipelineSpec.model_validate(spec))
    # a is done with its first output at once, so that both work side by side.
    nodes = {
        "a": NodeProfile(runs=[Run(first_s=0.0, busy_s=1.0, cpu_s=1.0)]),
        "b": NodeProfile(runs=[busy(0.4)]),
    }

    def took_s(machines: int) -> float:
        room = Room(1, machines=machines, cpus={"a": 1.0, "b": 1.0})
        simulation = Simulation(made, Profile(nodes=nodes), {"a": 1, "b": 1}, room=room)
        return simulation.run([Arrival(0.0, 0.0)], 60).latencies_s[0][1]

    assert took_s(machines=1) == pytest.approx(0.8)
    assert took_s(machines=2) == pytest.approx(0.4)


def test_sessions_that_stand_take_their_part() -> None:
    uses = {"asr": "fakes:Hear", "llm": "fakes:Answer"}
    spec = {
        "name": "t",
        "nodes": {name: {"use": use} for name, use in uses.items()},
        "edges": ["input -> asr -> conversation", "conversation -> llm -> output"],
        "conversation": {},
    }
    made = build(PipelineSpec.model_validate(spec))
    profile = Profile(
        nodes={"asr": NodeProfile(standing_cores=0.25), "llm": NodeProfile(runs=[busy(0.1)])}
    )
    counts = {"asr": 10, "llm": 10}

    def took_s(sessions: int) -> float:
        habits = Habits(think_s=20.0)
        simulation = Simulation(made, profile, counts, habits=habits, room=Room(1))
        return simulation.run([Arrival(0.0, 300.0)] * sessions, 200).percentile(0.1)

    assert took_s(1) == pytest.approx(0.1 / 0.75)
    assert took_s(3) == pytest.approx(0.2), "three quarters of a core are wanted; half is its share"


def test_a_node_begins_when_the_one_before_has_given_what_it_needs() -> None:
    spec = {
        "name": "t",
        "nodes": {name: {"use": "workerfakes:Worker"} for name in "ab"},
        "edges": ["input -> a -> b -> output"],
    }
    made = build(PipelineSpec.model_validate(spec))
    nodes = {
        "a": NodeProfile(runs=[Run(first_s=0.2, busy_s=1.2)]),
        "b": NodeProfile(runs=[Run(first_s=0.1, busy_s=0.5)], needs=[Need(rest_s=1.0, share=0.4)]),
    }
    simulation = Simulation(made, Profile(nodes=nodes), {"a": 1, "b": 1})
    found = simulation.run([Arrival(0.0, 0.0)], 60)
    assert found.latencies_s == [(pytest.approx(0.7), pytest.approx(0.7))]


def test_replicas_claim_cores_of_the_first_machine_that_has_some_left() -> None:
    machines, slowed = Machines(Room(2, machines=2)), dict[str, float]()
    for name in "abcde":
        machines.place(name, 1.0)
        machines.want(name, 1.0, lambda factor, name=name: slowed.update({name: factor}))
    assert slowed == pytest.approx({"a": 1.5, "b": 1.5, "e": 1.5}), "with the first two"
    machines.remove("b")
    assert slowed["a"] == slowed["e"] == 1.0
