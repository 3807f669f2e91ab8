"""The policy under steps, ramps and sawtooths: enough replicas in time, and no flapping."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.pipelines.scaling import Replica, Scaler, actions, victims
from motet.pipelines.spec import Scale


def simulate(
    load: Callable[[float], int], scale: Scale, *, concurrency: int = 4, seconds: float = 600
) -> list[tuple[float, int]]:
    """Replica counts over time, a decision every half second."""
    scaler, replicas, found = Scaler(scale, concurrency), scale.min_replicas, []
    for step in range(int(seconds * 2)):
        now_s = step / 2
        scaler.observe(now_s, load(now_s))
        replicas = scaler.desired(now_s, replicas)
        found.append((now_s, replicas))
    return found


def turns(found: list[tuple[float, int]]) -> int:
    """How often the direction of change reversed."""
    steps = [after - before for (_, before), (_, after) in pairwise(found) if after != before]
    return sum((one > 0) != (two > 0) for one, two in pairwise(steps))


def test_a_step_goes_up_once_and_down_once() -> None:
    scale = Scale(min_replicas=1, max_replicas=20, window_s=10, scale_down_delay_s=60)
    found = simulate(lambda now: 40 if 100 <= now < 300 else 2, scale)
    counts = dict(found)
    assert counts[99.5] == 1
    assert counts[115] >= 10, "enough for the step within about a window"
    assert max(counts.values()) <= 14, "the forecast may overshoot a little, not run away"
    assert counts[299] == 10
    assert counts[355] >= 10, "kept for the whole delay"
    assert counts[400] == 1
    assert turns(found) <= 2


def test_a_delay_shorter_than_the_window_does_not_flap() -> None:
    scale = Scale(min_replicas=1, max_replicas=20, window_s=10, scale_down_delay_s=2)
    found = simulate(lambda now: 40 if now >= 100 else 2, scale)
    assert turns(found) <= 1


@pytest.mark.parametrize("period_s", [10, 30, 50])
def test_a_sawtooth_faster_than_the_delay_holds_its_peak(period_s: int) -> None:
    scale = Scale(min_replicas=1, max_replicas=20, window_s=10, scale_down_delay_s=60)
    found = simulate(lambda now: int(40 * (now % period_s) / period_s), scale)
    late = [count for now, count in found if now > 120]
    assert min(late) == max(late)


def test_a_ramp_is_met_ahead_of_it() -> None:
    scale = Scale(min_replicas=1, max_replicas=50, window_s=20, scale_down_delay_s=60)
    found = simulate(lambda now: int(now / 3), scale, seconds=300)
    short = [now for now, count in found if now > 10 and count * 4 < int(now / 3)]
    assert not short


def test_to_zero_after_the_delay_and_back_at_once() -> None:
    scale = Scale(min_replicas=0, max_replicas=4, window_s=10, scale_down_delay_s=30)
    found = dict(simulate(lambda now: 1 if now < 50 or now >= 200 else 0, scale, seconds=220))
    assert found[0] == 1, "the first run wakes it, without waiting for the window"
    assert found[79] == 1
    assert found[100] == 0
    assert found[199.5] == 0
    assert found[200] == 1


def test_steps_are_bounded() -> None:
    scale = Scale(min_replicas=1, max_replicas=100, window_s=1, scale_down_delay_s=0)
    up = [count for _, count in simulate(lambda _: 400, scale, seconds=10)]
    assert up[:4] == [5, 10, 20, 40]
    found = simulate(lambda now: 400 if now < 5 else 0, scale, seconds=20)
    down = [count for now, count in found if now > 5]
    assert all(after >= before // 2 for before, after in pairwise(down))
    assert down[-1] == 1


def test_a_busy_engine_asks_for_more_than_its_runs_do() -> None:
    scaler = Scaler(Scale(min_replicas=1, max_replicas=8, window_s=1), concurrency=100)
    for step in range(10):
        scaler.observe(step, 3, busy_replicas=0.97)
    assert scaler.desired(10, 1) == 2
    for step in range(10, 200):
        scaler.observe(step, 3, busy_replicas=2 * 0.3)
    assert scaler.desired(200, 2) == 1


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=80),
    st.integers(0, 3),
    st.integers(3, 12),
    st.integers(1, 16),
)
def test_within_bounds_and_enough_for_a_steady_load(
    loads: list[int], least: int, most: int, concurrency: int
) -> None:
    scale = Scale(min_replicas=least, max_replicas=most, window_s=5, scale_down_delay_s=10)
    scaler, replicas = Scaler(scale, concurrency), least
    for now, load in enumerate(loads):
        scaler.observe(now, load)
        replicas = scaler.desired(now, replicas)
        assert least <= replicas <= most
    for later in range(60):
        now = len(loads) + later
        scaler.observe(now, loads[-1])
        replicas = scaler.desired(now, replicas)
    assert replicas == min(max(least, math.ceil(loads[-1] / concurrency)), most)


def test_victims_are_starting_then_emptiest_then_youngest() -> None:
    fleet = [
        Replica("busy", "ready", 9),
        Replica("old", "ready", 1, started_s=1),
        Replica("young", "ready", 1, started_s=5),
        Replica("new", "starting", 0),
    ]
    assert [one.id for one in victims(fleet, 3)] == ["new", "young", "old"]


def test_a_draining_replica_stops_when_empty_or_at_its_deadline() -> None:
    fleet = [
        Replica("empty", "draining", 0, drain_by_s=100),
        Replica("late", "draining", 3, drain_by_s=9),
        Replica("talking", "draining", 3, drain_by_s=100),
        Replica("kept", "ready", 3),
    ]
    todo = actions(fleet, 1, 10)
    assert set(todo.stop) == {"empty", "late"}
    assert (todo.start, todo.revive, todo.drain) == (0, (), ())


def test_draining_replicas_come_back_before_new_ones_start() -> None:
    fleet = [Replica("a", "ready", 4), Replica("b", "draining", 2, drain_by_s=100)]
    todo = actions(fleet, 3, 10)
    assert (todo.start, todo.revive, todo.stop) == (1, ("b",), ())


def test_one_past_its_drain_deadline_does_not_keep_another_from_coming_back() -> None:
    fleet = [
        Replica("late", "draining", 3, drain_by_s=9),
        Replica("b", "draining", 2, drain_by_s=100),
    ]
    todo = actions(fleet, 1, 10)
    assert (todo.start, todo.revive, todo.stop) == (0, ("b",), ("late",))
