"""Spans of speech from probabilities: bounds, joins, cuts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.vad.spans import SpanRules, segments

TIGHT = SpanRules(pad_ms=0)


def windows(*runs: tuple[float, int]) -> np.ndarray:
    return np.concatenate([np.full(n, p, np.float32) for p, n in runs])


def bounds(probabilities: np.ndarray, rules: SpanRules) -> list[tuple[float, float]]:
    return [(span.start_ms / 32, span.end_ms / 32) for span in segments(probabilities, rules)]


def test_a_pause_within_a_sentence_joins_and_a_long_one_parts():
    speech = windows((0.0, 5), (0.9, 10), (0.1, 3), (0.9, 10), (0.1, 9), (0.9, 4))
    assert bounds(speech, TIGHT) == [(5, 28), (37, 41)]


def test_hesitant_windows_do_not_end_speech_but_do_not_begin_it():
    assert bounds(windows((0.4, 9), (0.9, 4), (0.4, 9), (0.9, 2), (0.0, 9)), TIGHT) == [(9, 24)]


def test_a_click_is_no_speech():
    assert bounds(windows((0.0, 5), (0.9, 1), (0.0, 9)), TIGHT) == []


def test_long_speech_is_cut_where_it_is_quietest():
    speech = windows((0.9, 100))
    speech[70] = 0.55
    assert bounds(speech, SpanRules(pad_ms=0, max_speech_ms=80 * 32)) == [(0, 70), (70, 100)]


def test_padding_meets_in_the_middle_and_stays_inside():
    speech = windows((0.9, 5), (0.0, 6), (0.9, 5))
    assert bounds(speech, SpanRules(pad_ms=1000)) == [(0, 8), (8, 16)]
    assert segments(speech, SpanRules(pad_ms=1000), duration_ms=500)[-1].end_ms == 500


@given(
    st.lists(st.floats(0, 1, width=32), max_size=200),
    st.integers(0, 400),
    st.integers(100, 3000),
)
@settings(max_examples=150, deadline=None)
def test_spans_are_ordered_disjoint_inside_and_no_longer_than_allowed(
    speech: list[float], pad_ms: int, max_ms: int
):
    rules = SpanRules(pad_ms=pad_ms, max_speech_ms=max_ms)
    spans = segments(np.array(speech, np.float32), rules)
    edges = [edge for span in spans for edge in (span.start_ms, span.end_ms)]
    assert edges == sorted(edges)
    assert not edges or (edges[0] >= 0 and edges[-1] <= len(speech) * 32)
    assert all(span.end_ms - span.start_ms <= max_ms + 2 * pad_ms for span in spans)
