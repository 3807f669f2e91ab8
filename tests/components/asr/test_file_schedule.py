"""In which order chunks are batched, and results leave."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.asr.file_chunks import Chunk
from motet.components.asr.file_schedule import Schedule

RATE_HZ = 16_000


def chunk_of(seconds: float, start_s: float = 0) -> Chunk:
    return Chunk(0, int(start_s * RATE_HZ), np.zeros(int(seconds * RATE_HZ), np.int16), seconds)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.5, 15), min_size=1, max_size=40), st.integers(1, 8), st.randoms())
def test_results_leave_in_order_whatever_finishes_first(lengths, size, random):
    schedule: Schedule[int] = Schedule()
    for number, length in enumerate(lengths):
        schedule.add(chunk_of(length, number))
    taken, left = [], []
    while schedule.outstanding:
        batch = schedule.take(size)
        if batch:
            assert len(batch) <= size
            taken.append(batch)
        if taken and (not batch or random.random() < 0.5):
            for number, chunk in taken.pop(random.randrange(len(taken))):
                schedule.finish(number, chunk, number)
        left += [result for _, result in schedule.leave()]
    assert left == list(range(len(lengths)))


def test_batches_hold_the_longest_waiting_and_its_like():
    schedule: Schedule[int] = Schedule()
    for length in (5, 14, 5.2, 13, 4.9, 1):
        schedule.add(chunk_of(length))
    assert [number for number, _ in schedule.take(3)] == [0, 2, 4]
    assert [number for number, _ in schedule.take(3)] == [1, 3, 5]
