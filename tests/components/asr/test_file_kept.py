"""What a file's transcript keeps until its end: all of it, in order, in little room."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from motet.components.asr.file_kept import KeptSegments
from motet.components.frames import Segment, Word
from motet.components.transcription import segment_json

times = st.floats(0, 9000).map(lambda second: round(second, 3))
words = st.builds(Word, st.text(max_size=6), times, times, st.floats(0, 1), st.none())
segments = st.builds(
    Segment,
    text=st.text(max_size=20),
    start_s=times,
    end_s=times,
    language=st.sampled_from(["en", None]),
    logprob=st.floats(-3, 0),
    tokens=st.lists(st.integers(0, 51_865), max_size=5).map(tuple),
    words=st.lists(words, max_size=4).map(tuple),
    marks=st.sampled_from([(), ("repetition",)]),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(segments, max_size=60), max_size=8))
def test_what_is_kept_comes_back_sorted_and_numbered(chunks):
    kept = KeptSegments()
    for chunk in chunks:
        kept.add(chunk)
    everything = sorted((one for chunk in chunks for one in chunk), key=lambda one: one.start_s)
    assert len(kept) == len(everything)
    assert kept.shapes() == [
        segment_json(replace(one, index=index)) for index, one in enumerate(everything)
    ]


def test_a_word_takes_a_few_bytes():
    random = Random(1)
    vocabulary = ["".join(random.choices("etaoinshr", k=5)) for _ in range(3000)]
    kept = KeptSegments()
    tracemalloc.start()
    for number in range(512):
        said = tuple(
            Word(f" {random.choice(vocabulary)}", number * 5 + i, number * 5 + i + 0.375, 0.75)
            for i in range(12)
        )
        text = "".join(word.text for word in said)
        kept.add([Segment(text, said[0].start_s, said[-1].end_s, tokens=(number, 7), words=said)])
    del said
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    # As objects each would take over 250.
    assert taken / (512 * 12) < 50
