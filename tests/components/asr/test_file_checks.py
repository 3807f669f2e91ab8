"""Which texts of chunks are believed."""

from __future__ import annotations

import pytest

from motet.components.asr.file_checks import CheckRules, Judged, faults, is_silence

SAID = "It was the best of times, it was the worst of times, it was the age of wisdom"


@pytest.mark.parametrize(
    ("judged", "fault"),
    [
        (Judged("and so on " * 40, -0.2, 0.0, 15), "repetition"),
        (Judged("The ship sailed on to the The ship sailed on", -0.2, 0, 4), "repetition"),
        (Judged(SAID, -1.4, 0.0, 6), "low_confidence"),
        (Judged("It was the best.", -0.1, 0.0, 14), "too_few_words"),
        (Judged("", -0.1, 0.0, 9), "too_few_words"),
        (Judged(SAID, -0.1, 0.0, 1.5), "too_many_words"),
        (Judged(SAID, -0.1, 0.0, 6, cut_off=True), "cut_off"),
    ],
)
def test_each_fault_is_seen(judged, fault):
    assert fault in faults(judged, CheckRules())


@pytest.mark.parametrize(
    "judged",
    [
        Judged(SAID, -0.3, 0.0, 6),
        Judged("今日はとても良い天気ですね散歩に行きましょう", -0.3, 0.0, 5),
        Judged("Yes.", -0.3, 0.0, 0.4),
    ],
)
def test_good_text_passes(judged):
    assert faults(judged, CheckRules()) == ()


def test_what_is_invented_over_silence_is_seen():
    rules = CheckRules()
    assert is_silence(Judged("Thank you.", -0.5, 0.8, 0.3), rules)
    assert is_silence(Judged(SAID, -1.5, 0.9, 3), rules)
    assert is_silence(Judged(" [Music]", -0.1, 0.1, 3), rules)
    assert not is_silence(Judged("Thank you.", -0.2, 0.05, 0.8), rules)
    assert not is_silence(Judged(SAID, -0.2, 0.9, 6), rules)
