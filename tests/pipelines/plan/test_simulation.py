"""Plans: against queueing theory, against the real runtime, and what they say about money."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from motet.components.base import Resources
from motet.components.errors import BadInput, SpecError
from motet.pipelines import Graph, build
from motet.pipelines.plan.inputs import (
    Arrival,
    Habits,
    Machine,
    Prices,
    packed,
    read_arrivals,
    steady,
)
from motet.pipelines.plan.profile import NodeProfile, Profile, Run
from motet.pipelines.plan.report import Planner, one_more, render
from motet.pipelines.plan.simulation import Simulation, split
from motet.pipelines.spec import PipelineSpec
from motet.streaming.commands.plan import seconds_of


def graph(*names: str, conversation: bool = False, **scale: Any) -> Graph:
    nodes = {
        name: {"use": "workerfakes:Worker", "scale": scale, "queue": {"bound": 10_000}}
        for name in names
    }
    edges = [" -> ".join(["input", *names, "output"])]
    spec: dict[str, Any] = {"name": "t", "nodes": nodes, "edges": edges}
    if conversation:
        uses = {"asr": "fakes:Hear", "llm": "fakes:Answer", "tts": "fakes:Say"}
        spec["nodes"] = {name: {"use": use, "scale": scale} for name, use in uses.items()}
        spec["edges"] = ["input -> asr -> conversation", "conversation -> llm -> tts -> output"]
        spec["conversation"] = {}
    return build(PipelineSpec.model_validate(spec))


def profile(cold_s: float = 0.0, **runs: list[Run]) -> Profile:
    nodes = {name: NodeProfile(runs=found, cold_start_s=cold_s) for name, found in runs.items()}
    return Profile(nodes=nodes)


def fixed(seconds: float, first_s: float | None = None) -> list[Run]:
    return [Run(first_s=seconds if first_s is None else first_s, busy_s=seconds)]


def erlang_c_wait_s(rate: float, service_s: float, places: int) -> float:
    """Mean wait of an M/M/c queue (Erlang 1917)."""
    load = rate * service_s
    tail = load**places / math.factorial(places) * places / (places - load)
    waiting = tail / (sum(load**k / math.factorial(k) for k in range(places)) + tail)
    return waiting * service_s / (places - load)


@pytest.mark.parametrize(("replicas", "concurrency", "load"), [(2, 1, 1.4), (2, 4, 5.5), (1, 3, 2)])
def test_waits_are_those_of_queueing_theory(replicas: int, concurrency: int, load: float) -> None:
    rng, count = random.Random(5), 8_000
    runs = [Run(first_s=s, busy_s=s) for s in (rng.expovariate(10) for _ in range(4000))]
    service_s = statistics.mean(run.busy_s for run in runs)
    rate = load / service_s
    arrivals, now_s = [], 0.0
    for _ in range(count):
        now_s += rng.expovariate(rate)
        arrivals.append(Arrival(now_s, 0.0))
    made = graph("a", min_replicas=replicas, max_replicas=replicas, concurrency=concurrency)
    outcome = Simulation(made, profile(a=runs), {"a": concurrency}).run(arrivals, now_s + 60)
    assert len(outcome.latencies_s) == count
    wait_s = statistics.mean(outcome.nodes["a"].waits_s)
    expected_s = erlang_c_wait_s(rate, service_s, replicas * concurrency)
    assert wait_s == pytest.approx(expected_s, rel=0.15)


def test_nodes_start_at_the_first_output_of_the_one_before() -> None:
    made = graph("a", "b", min_replicas=1, max_replicas=1, concurrency=1)
    runs = profile(a=fixed(1.0, first_s=0.2), b=fixed(0.3, first_s=0.1))
    outcome = Simulation(made, runs, {"a": 1, "b": 1}).run([Arrival(0, 0), Arrival(0, 0)], 60)
    times = [took for _, took in outcome.latencies_s]
    assert times == pytest.approx([0.3, 1.0 + 0.2 + 0.1])


def test_samples_come_in_turns() -> None:
    runs = [Run(first_s=one, busy_s=one, sample=at) for at, one in enumerate((0.1, 0.3))]
    measured = Profile(nodes={"a": NodeProfile(runs=runs)}, samples=2)
    simulation = Simulation(graph("a"), measured, {"a": 1})
    outcome = simulation.run([Arrival(at_s, 0.0) for at_s in (0, 10, 20)], 60)
    assert [took for _, took in outcome.latencies_s] == pytest.approx([0.3, 0.1, 0.3])


def test_a_conversation_holds_its_places_and_takes_turns() -> None:
    made = graph(conversation=True, min_replicas=1, max_replicas=4, concurrency=10)
    assert split(made) == (["asr"], ["llm", "tts"])
    habits = Habits(session_s=60, think_s=5)
    runs = profile(llm=fixed(0.5, first_s=0.2), tts=fixed(1.0, first_s=0.1))
    counts = {"asr": 10, "llm": 10, "tts": 10}
    simulation = Simulation(made, runs, counts, habits=habits)
    outcome = simulation.run(steady(30, 1800, habits), 1800)
    assert outcome.nodes["asr"].mean_replicas() == pytest.approx(3.5, abs=0.8)
    per_turn_s = 5 + 1.2
    assert len(outcome.latencies_s) == pytest.approx(30 * 1800 / per_turn_s, rel=0.12)
    assert outcome.percentile(0.5) == pytest.approx(0.3)


def test_the_bottleneck_grows_alone() -> None:
    made = graph("slow", "fast", min_replicas=1, max_replicas=8, concurrency=1, window_s=5)
    runs = profile(slow=fixed(1.0), fast=fixed(0.02))
    arrivals = [Arrival(index / 3, 0.0) for index in range(900)]
    outcome = Simulation(made, runs, {"slow": 1, "fast": 1}).run(arrivals, 300)
    assert outcome.nodes["slow"].most_replicas() <= 8, "some more while the backlog lasts"
    assert outcome.nodes["slow"].replicas[-1][1] in (3, 4)
    assert outcome.nodes["fast"].most_replicas() == 1


def test_cold_starts_and_refusals_are_counted() -> None:
    made = graph("a", min_replicas=0, max_replicas=1, concurrency=1)
    simulation = Simulation(made, profile(5.0, a=fixed(1.0)), {"a": 1})
    outcome = simulation.run([Arrival(10.0, 0.0)], 60)
    assert outcome.latencies_s[0][1] == pytest.approx(6.0, abs=0.51)
    slow = Simulation(made, profile(40.0, a=fixed(1.0)), {"a": 1})
    outcome = slow.run([Arrival(10.0, 0.0)], 60)
    assert outcome.latencies_s == []
    assert (outcome.nodes["a"].refused, outcome.failed_sessions) == (1, 1), (
        "30 s is the longest wait"
    )


def test_a_death_fails_what_ran_there_and_the_rest_recovers() -> None:
    made = graph("a", min_replicas=4, max_replicas=4, concurrency=1)
    simulation = Simulation(made, profile(2.0, a=fixed(0.5)), {"a": 1})
    simulation.at(60.0, lambda: simulation.kill(0.5))
    arrivals = [Arrival(index / 6, 0.0) for index in range(720)]
    outcome = simulation.run(arrivals, 150)
    assert 1 <= outcome.nodes["a"].failed <= 2
    assert outcome.failed_sessions == outcome.nodes["a"].failed
    assert len(outcome.latencies_s) == 720 - outcome.failed_sessions
    assert outcome.percentile(0.99, since_s=100) == pytest.approx(0.5), "well again"
    assert outcome.percentile(1.0) > 0.7, "late for a while"


PRICES = Prices(
    machines={
        "small": Machine(per_hour=1.0, cpus=4),
        "large": Machine(per_hour=1.5, cpus=8),
        "gpu": Machine(per_hour=4.0, cpus=8, gpus=2),
    }
)


def test_replicas_are_packed_on_the_cheapest_machines() -> None:
    assert packed([(2, 0)] * 2, PRICES) == ({"small": 1}, 1.0)
    assert packed([(2, 0)] * 4, PRICES) == ({"large": 1}, 1.5)
    assert packed([(3, 0)] * 3, PRICES) == ({"large": 2}, 3.0)
    assert packed([(2, 0.5)] * 5 + [(1, 0)], PRICES) == ({"gpu": 2, "small": 1}, 9.0)
    with pytest.raises(SpecError, match="none has 2 CPUs and 3 GPUs"):
        packed([(2, 3)], PRICES)


def test_a_plan_says_what_to_buy_first() -> None:
    made = graph("slow", "fast", min_replicas=1, max_replicas=1, concurrency=1)
    runs = profile(slow=fixed(0.4), fast=fixed(0.1))
    rng, arrivals, now_s = random.Random(2), [], 0.0
    while now_s < 600:
        now_s += rng.expovariate(2.2)
        arrivals.append(Arrival(now_s, 60.0))
    counts = {"slow": 1, "fast": 1}
    planner = Planner(
        graph=made,
        profile=runs,
        concurrency=counts,
        resources={"slow": Resources(3), "fast": Resources(1)},
        arrivals=arrivals,
        seconds=640,
        prices=PRICES,
        target_s=0.8,
        simulate=lambda changed: Simulation(changed, runs, counts),
    )
    plan = planner.plan(death_at_s=100)
    assert plan.advice[0].node == "slow"
    assert plan.advice[0].p95_s < 0.9 < plan.outcome.percentile(0.95)
    assert plan.per_hour == pytest.approx(1.0)
    assert plan.advice[0].per_hour == pytest.approx(0.5)
    assert plan.per_audio_minute == pytest.approx(1.0 * 640 / 3600 / len(arrivals), rel=0.01)
    assert plan.death is not None
    assert plan.death.failed_runs >= 1
    text = render(plan)
    assert "MISSED" in text
    assert "buy first: slow" in text
    assert "1.00 EUR an hour" in text
    assert plan.enough is not None
    assert plan.enough.kept
    assert plan.enough.replicas["slow"] == 3
    assert plan.enough.p95_s <= 0.8 < plan.advice[0].p95_s, "two are too few"
    assert "to keep p95 within 800 ms: at least 3 replicas of slow" in text
    assert one_more(made, "slow").nodes["slow"].spec.scale.max_replicas == 2


def test_a_plan_without_prices_says_nothing_of_money_and_when_replicas_do_not_help() -> None:
    made = graph("a", min_replicas=1, max_replicas=1, concurrency=1)
    runs = profile(a=fixed(1.0))
    planner = Planner(
        graph=made,
        profile=runs,
        concurrency={"a": 1},
        resources={"a": Resources(1)},
        arrivals=[Arrival(at_s, 0.0) for at_s in (0, 0, 0, 10, 20)],
        seconds=60,
        prices=Prices(machines={"any": Machine(per_hour=0.0, cpus=2)}),
        target_s=0.5,
        simulate=lambda changed: Simulation(changed, runs, {"a": 1}),
    )
    text = render(planner.plan())
    assert "EUR" not in text
    assert "machines at the peak: 1 x any; what they cost takes --prices FILE" in text
    assert "at least 3 replicas of a it is 1000 ms, and further replicas don't help" in text


def test_arrivals_of_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,length_s\n10,5\n0,3\n")
    found, until_s = read_arrivals(trace, peak_sessions=None, habits=Habits())
    assert (found, until_s) == ([Arrival(0, 3), Arrival(10, 5)], 15)
    trace.write_text("time_s,sessions\n0,1\n3600,4\n7200,0\n")
    found, until_s = read_arrivals(trace, peak_sessions=100, habits=Habits(session_s=60))
    assert until_s == 7200
    first = sum(one.at_s < 3600 for one in found)
    assert first == pytest.approx(25 * 60 + 25, rel=0.1)
    assert len(found) - first == pytest.approx(100 * 60, rel=0.1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"the header is \[\]"),
        ("a,b\n1,2\n", r"the header is \['a', 'b'\]; possible: time_s,length_s"),
        ("time_s,length_s\n", "has no rows"),
        ("time_s,length_s\n1,x\n2,y\n", r"trace.csv:3: .*'y'"),
    ],
)
def test_a_bad_trace_is_told_line_by_line(tmp_path: Path, text: str, words: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    with pytest.raises(SpecError, match=words):
        read_arrivals(trace, peak_sessions=1, habits=Habits())


def test_profiles_and_prices_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"nodes": {"a": {"runs": [{"first_s": -1, "busy_s": 1}]}}, "x": 1}')
    with pytest.raises(SpecError, match=r"nodes\.a\.runs\.0\.first_s(.|\n)*x: Extra"):
        Profile.load(path)
    path.write_text("machines: {a: {per_hour: 1, cpu: 2}}")
    with pytest.raises(SpecError, match=r"machines\.a\.cpu: Extra"):
        Prices.load(path)
    kept = profile(2.0, a=fixed(1.0, first_s=0.1))
    kept.save(path)
    assert Profile.load(path) == kept
    with pytest.raises(BadInput, match="the profile has no runs of a"):
        Simulation(graph("a"), profile(), {"a": 1})


@pytest.mark.parametrize(("text", "seconds"), [("800ms", 0.8), ("1.2s", 1.2), ("2", 2.0)])
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)
    with pytest.raises(BadInput, match="is no time"):
        seconds_of("soon" + text)
