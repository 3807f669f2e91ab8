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
@given(
    st.lists(st.floats(0.5, 15), min_size=1, max_size=40),
    st.integers(1, 8),
    st.integers(1000, 15_000),
    st.randoms(),
)
def test_results_leave_in_order_whatever_finishes_first(lengths, size, frames, random):
    schedule: Schedule[int] = Schedule()
    for number, length in enumerate(lengths):
        schedule.add(chunk_of(length, number))
    taken, left = [], []
    while schedule.outstanding:
        batch = schedule.take(size, frames)
        if batch:
            assert len(batch) <= size
            padded = len(batch) * max(chunk.frames for _, chunk in batch)
            assert padded <= frames or len(batch) == 1
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
    assert [number for number, _ in schedule.take(3, 10_000)] == [0, 2, 4]
    assert [number for number, _ in schedule.take(3, 10_000)] == [1, 3, 5]


def test_the_longest_waiting_is_never_left_out():
    """Many alike in length, and more than fit: the first of them goes first."""
    schedule: Schedule[int] = Schedule()
    for _ in range(5):
        schedule.add(chunk_of(14))
    # 1600 frames each: 14 s and 2 s of silence.
    assert [number for number, _ in schedule.take(8, 3300)] == [0, 1]
    assert [number for number, _ in schedule.take(8, 100)] == [2]
    assert [number for number, _ in schedule.take(8, 4800)] == [3, 4]
