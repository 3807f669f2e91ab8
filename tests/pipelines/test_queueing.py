"""Queues: order, fairness between keys, no starved priority, bounds, refusals in time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.errors import DeadlineExceeded, Overloaded
from motet.pipelines.queueing import WaitEstimate, WorkQueue
from motet.pipelines.spec import Queue


def filled(order: str, entries: list[tuple[str, int]]) -> WorkQueue[tuple[int, str, int]]:
    queue: WorkQueue[tuple[int, str, int]] = WorkQueue(
        Queue.model_validate({"bound": 10_000, "order": order})
    )
    for number, (key, priority) in enumerate(entries):
        queue.push(
            (number, key, priority), now_s=number, expected_wait_s=0, key=key, priority=priority
        )
    return queue


def test_one_key_is_first_in_first_out() -> None:
    queue = filled("fifo", [("k", priority % 3) for priority in range(20)])
    assert [queue.pop()[0] for _ in range(20)] == list(range(20))  # type: ignore[index]
    assert queue.pop() is None
    assert len(queue) == 0


def test_a_flood_of_one_key_leaves_the_others_their_turns() -> None:
    queue = filled("fifo", [("flood", 0)] * 100 + [("a", 0)] * 5 + [("b", 0)] * 5)
    first = Counter(queue.pop()[1] for _ in range(15))  # type: ignore[index]
    assert first == {"flood": 5, "a": 5, "b": 5}


def test_priorities_are_weighted_and_none_is_starved() -> None:
    queue = filled("priority", [("k", 0)] * 50 + [("k", 1)] * 400)
    served = [queue.pop()[2] for _ in range(100)]  # type: ignore[index]
    assert 15 <= served.count(0) <= 25, "one in five"
    assert served[0] == 1


@pytest.mark.parametrize("other", [{"priority": 1}, {"key": "other"}])
def test_one_that_always_has_a_single_run_waiting_does_not_starve_the_rest(
    other: dict[str, Any],
) -> None:
    queue = filled("priority", [("k", 0)] * 100)
    served: list[str] = []
    queue.push((0, "other", 0), now_s=100, expected_wait_s=0, **other)
    for now_s in range(101, 201):
        served.append(queue.pop()[1])  # type: ignore[index]
        if served[-1] == "other":
            queue.push((0, "other", 0), now_s=now_s, expected_wait_s=0, **other)
    assert served.count("k") == pytest.approx(20 if "priority" in other else 50, abs=1)


def test_a_priority_that_was_away_gets_no_arrears() -> None:
    queue = filled("priority", [("k", 0)] * 100)
    for _ in range(50):
        queue.pop()
    for _ in range(20):
        queue.push((0, "k", 1), now_s=0, expected_wait_s=0, key="k", priority=1)
    served = [queue.pop()[2] for _ in range(10)]  # type: ignore[index]
    assert 8 <= served.count(1) <= 9


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=60),
    st.sampled_from(["fifo", "priority"]),
    st.data(),
)
def test_nothing_is_lost_or_doubled_and_each_key_stays_in_order(
    entries: list[tuple[str, int]], order: str, data: st.DataObject
) -> None:
    queue = filled(order, entries)
    items = [(number, key, priority) for number, (key, priority) in enumerate(entries)]
    for item in data.draw(st.lists(st.sampled_from(items), unique=True)) if items else []:
        waiting = next(
            entry
            for group in queue._classes.values()
            for flow in group.flows.values()
            for _, entry in flow.items
            if entry == item
        )
        assert queue.remove(waiting)
        assert not queue.remove(waiting)
        items.remove(item)
    out = []
    while (item := queue.pop()) is not None:
        out.append(item)
    assert sorted(out) == items
    assert len(queue) == 0
    for key in "abc":
        for level in range(3):
            mine = [one for one in out if one[1:] == (key, level)]
            assert mine == sorted(mine)


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    queue: WorkQueue[int] = WorkQueue(Queue(bound=2), where="asr")
    queue.push(1, now_s=0, expected_wait_s=3)
    queue.push(2, now_s=0, expected_wait_s=3)
    with pytest.raises(Overloaded, match="asr: 2 runs wait already") as caught:
        queue.push(3, now_s=0, expected_wait_s=4.5)
    assert caught.value.retry_after_s == 4.5
    with pytest.raises(Overloaded, match=r"about 31\.0 s"):
        WorkQueue[int](Queue(max_wait_s=30)).push(1, now_s=0, expected_wait_s=31)


def test_a_run_that_cannot_begin_in_time_is_refused_at_once() -> None:
    queue: WorkQueue[int] = WorkQueue(Queue())
    queue.push(1, now_s=10, expected_wait_s=2, deadline_s=12.5)
    with pytest.raises(DeadlineExceeded, match=r"2\.000 s are left"):
        queue.push(2, now_s=10, expected_wait_s=2.1, deadline_s=12)
    assert queue.refused == 1


def test_the_wait_is_estimated_from_what_runs_took() -> None:
    estimate = WaitEstimate()
    for _ in range(50):
        estimate.finished(2.0)
    assert estimate.wait_s(ahead=3, places=4) == pytest.approx(2.0)
    for _ in range(50):
        estimate.finished(1.0)
    assert estimate.wait_s(ahead=3, places=4) == pytest.approx(1.0, rel=0.02)


def test_no_priority_is_so_high_that_the_others_never_come() -> None:
    """Unbounded, weights of 4 to the 100th would be lost in the rounding of the others' turns."""
    queue = filled("priority", [("k", 100)] * 50 + [("k", 8)] * 50 + [("k", 0)])
    served = [queue.pop()[2] for _ in range(101)]  # type: ignore[index]
    assert 0 in served[:2], "the first of a priority waits for no weight"
    assert [one for one in served if one] == [100] * 50 + [8] * 50, "both wait as the last level"
