"""From words of chunks to sentences of the file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.components.asr.file_stitch import cues, join, place_words, sentences
from motet.components.frames import Word

times = st.lists(st.tuples(st.floats(-2, 40), st.floats(-2, 40)), max_size=30)


@given(times, st.floats(0, 10), st.floats(0, 20), st.floats(0, 15))
def test_placed_words_never_go_back_and_stay_inside(spans, start_s, length_s, floor_s):
    words = [Word(" w", low, high) for low, high in spans]
    end_s = max(start_s + length_s, floor_s)
    placed = place_words(words, start_s, end_s, floor_s)
    last_s = max(start_s, floor_s)
    for word in placed:
        assert last_s - 0.002 <= word.start_s <= word.end_s <= end_s + 0.002
        last_s = word.end_s
    assert len(placed) == len(words)


def said(text: str, each_s: float = 0.4) -> list[Word]:
    parts = text.split(" ")
    return [
        Word((" " if n else "") + part, n * each_s, n * each_s + 0.35)
        for n, part in enumerate(parts)
    ]


def test_segments_are_sentences():
    text = 'He said "no." She left at 3.5 km. Fine.'
    assert [join(group) for group in sentences(said(text))] == [
        'He said "no."',
        "She left at 3.5 km.",
        "Fine.",
    ]


def test_a_pause_parts_segments_and_none_gets_too_long():
    words = said("and " * 100)
    words[50:] = [Word(w.text, w.start_s + 5, w.end_s + 5) for w in words[50:]]
    groups = sentences(words)
    assert all(group[-1].end_s - group[0].start_s <= 15.1 for group in groups)
    assert any(group[0].start_s == words[50].start_s for group in groups)
    assert [word for group in groups for word in group] == words


def test_cues_fit_two_lines():
    for group in cues(said("extraordinarily long words in a sentence " * 12)):
        assert len(join(group)) <= 84
