"""Cutting a recording into chunks at pauses, and a chunk in two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.asr.file_chunks import Chunk, CutRules, Cutter
from motet.components.asr.file_split import halves
from motet.components.silero import WINDOW, State

RATE_HZ = 16_000


class LoudnessVad:
    """Calls loud windows speech, for cutting without a model."""

    def scan(self, samples, state=None):
        padded = np.pad(samples, (0, -len(samples) % WINDOW)).astype(np.float32)
        loud = np.abs(padded.reshape(-1, WINDOW)).mean(axis=1) > 500
        return loud.astype(np.float32), state or State.fresh()


def sound(*pieces: tuple[float, bool]) -> np.ndarray:
    """Seconds of noise (True) and near silence (False)."""
    rng = np.random.default_rng(0)
    parts = [
        (rng.normal(size=int(length * RATE_HZ)) * (3000 if loud else 10)).astype(np.int16)
        for length, loud in pieces
    ]
    return np.concatenate(parts)


def cut(pcm: np.ndarray, rules: CutRules, step: int = RATE_HZ) -> list[Chunk]:
    cutter = Cutter(LoudnessVad(), rules)
    chunks = [
        chunk for at in range(0, len(pcm), step) for chunk in cutter.push(pcm[at : at + step])
    ]
    return chunks + cutter.push(pcm[:0], last=True)


pieces = st.lists(
    st.tuples(st.floats(0.3, 6.0), st.floats(0.05, 3.0)), min_size=1, max_size=12
).map(lambda pairs: [piece for on, off in pairs for piece in ((on, True), (off, False))])


@settings(max_examples=30, deadline=None)
@given(pieces, st.integers(700, 40_000))
def test_chunks_hold_all_speech_in_order_and_within_bounds(parts, step):
    pcm, rules = sound(*parts), CutRules(longest_s=8.0)
    chunks = cut(pcm, rules, step)
    end = 0
    heard = np.zeros(len(pcm), bool)
    for chunk in chunks:
        assert chunk.start >= end
        end = chunk.start + len(chunk.pcm)
        assert chunk.duration_s <= rules.longest_s + 3 * rules.pad_s
        assert np.array_equal(chunk.pcm, pcm[chunk.start : end]), "the time map is linear"
        heard[chunk.start : end] = True
    loud = np.abs(LoudnessVad().scan(pcm)[0])
    for window in np.flatnonzero(loud):
        assert heard[window * WINDOW : (window + 1) * WINDOW].all(), "speech was dropped"
    assert [chunk.key for chunk in cut(pcm, rules, 16_000)] == [chunk.key for chunk in chunks]


def test_cuts_fall_into_pauses():
    pcm = sound(*[piece for _ in range(12) for piece in ((2.2, True), (0.4, False))])
    inner = [
        place
        for chunk in cut(pcm, CutRules(longest_s=8.0))
        for place in (chunk.start, chunk.start + len(chunk.pcm) - 1)
        if 0 < place < len(pcm) - 1
    ]
    assert inner
    for place in inner:
        assert np.abs(pcm[max(0, place - 50) : place + 50]).mean() < 100


def test_a_long_pause_always_parts_chunks_and_is_left_out():
    chunks = cut(sound((2, True), (35, False), (2, True)), CutRules())
    assert len(chunks) == 2
    assert chunks[1].start_s == pytest.approx(37, abs=0.3)
    assert sum(chunk.duration_s for chunk in chunks) < 6


def test_speech_without_a_pause_is_cut_where_it_is_quietest():
    pcm = sound((30, True))
    pcm[int(12.5 * RATE_HZ) : int(12.6 * RATE_HZ)] //= 3
    chunks = cut(pcm, CutRules(longest_s=15))
    assert chunks[0].start_s + chunks[0].duration_s == pytest.approx(12.55, abs=0.1)


def test_the_cutter_keeps_little():
    cutter = Cutter(LoudnessVad(), CutRules(longest_s=10))
    for _ in range(60):
        cutter.push(sound((3.5, True), (0.3, False)))
        assert len(cutter._pcm) < 25 * RATE_HZ


def test_halves_join_to_the_chunk_and_meet_in_a_pause():
    pcm = sound((3, True), (0.5, False), (3.5, True))
    chunk = Chunk(1, 500, pcm, 6.5, ((0, 3 * RATE_HZ), (int(3.5 * RATE_HZ), 7 * RATE_HZ)))
    first, second = halves(chunk)
    assert np.array_equal(np.concatenate([first.pcm, second.pcm]), pcm)
    assert first.start == 500
    assert second.start == 500 + len(first.pcm)
    assert 3.0 < first.duration_s < 3.5
    assert first.speech_s + second.speech_s == pytest.approx(6.5)
    short = Chunk(0, 0, np.zeros(3 * RATE_HZ, np.int16), 3.0)
    assert halves(short) == [short]
