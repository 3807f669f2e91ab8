"""Canaries: shares are kept on any stretch of sessions, and faults call off exactly when told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from motet.pipelines.canary import Canary, CanarySpec, FaultRate, Turns

SHARES = st.floats(0, 1)


@given(SHARES, st.integers(0, 500), st.integers(1, 2000))
def test_every_stretch_of_sessions_holds_its_share(share: float, skipped: int, count: int) -> None:
    turns = Turns()
    for _ in range(skipped):
        turns.take(share)
    taken = sum(turns.take(share) for _ in range(count))
    assert abs(taken - share * count) <= 2 + math.log(count)


@given(SHARES, st.integers(2, 12))
def test_kinds_that_alternate_share_evenly_too(share: float, kinds: int) -> None:
    turns = Turns()
    taken = [0] * kinds
    for number in range(kinds * 400):
        taken[number % kinds] += turns.take(share)
    for one in taken:
        assert abs(one - 400 * share) <= 40


def test_nothing_and_everything() -> None:
    turns = Turns()
    assert not any(turns.take(0) for _ in range(100))
    assert all(turns.take(1) for _ in range(100))


def test_a_tenth_is_a_tenth_from_the_start() -> None:
    turns = Turns()
    assert [sum(turns.take(0.1) for _ in range(10)) for _ in range(10)].count(1) >= 8


@given(
    st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=200),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
def test_the_verdict_is_the_rate_over_enough_runs(
    runs: list[tuple[float, bool]], min_runs: int, allowed: float
) -> None:
    spec = CanarySpec(max_fault_rate=allowed, min_runs=min_runs, window_s=60)
    canary, ended, now_s = Canary(spec), list[tuple[float, bool]](), 100.0
    for step_s, fault in runs:
        now_s += step_s
        canary.ended(now_s, fault=fault)
        ended.append((now_s, fault))
        # What is on the edge of the window may be in or out, by a sixtieth of it.
        surely = [one for at_s, one in ended if at_s > now_s - 59]
        perhaps = [one for at_s, one in ended if at_s > now_s - 60]
        said = canary.verdict(now_s) is not None
        expected = {
            len(one) >= min_runs and sum(one) > allowed * len(one) for one in (surely, perhaps)
        }
        if len(expected) == 1 and len(surely) == len(perhaps):
            assert said is expected.pop()


def test_never_called_off_at_one() -> None:
    canary = Canary(CanarySpec(max_fault_rate=1, min_runs=1))
    for _ in range(100):
        canary.ended(0.0, fault=True)
    assert canary.verdict(0.0) is None


def test_the_reason_has_the_numbers() -> None:
    canary = Canary(CanarySpec(min_runs=4))
    for fault in (False, False, True):
        canary.ended(1.0, fault=fault)
    assert canary.verdict(1.0) is None, "too few to tell"
    canary.ended(1.0, fault=False)
    assert canary.verdict(1.0) == "1 of 4 runs failed (25.0%, allowed 5.0%)"


@given(st.lists(st.floats(0, 10), max_size=300))
def test_old_faults_are_forgotten_and_memory_is_bounded(steps: list[float]) -> None:
    rate, now_s = FaultRate(60), 0.0
    for step_s in steps:
        now_s += step_s
        rate.add(now_s, fault=True)
        assert len(rate._buckets) <= 61
    assert rate.counts(now_s + 61) == (0, 0)


@pytest.mark.parametrize("wrong", [{"share": 1.1}, {"share": -0.1}, {"min_runs": 0}, {"shares": 1}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        CanarySpec.model_validate(wrong)
