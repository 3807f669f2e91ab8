"""Checks of a transcript: loops, guesses, and sentences that nobody said."""

from __future__ import annotations

import pytest

from motet.components.asr.checks import (
    compression_ratio,
    flaws,
    is_echo,
    is_note,
    is_spoken,
    is_stock_phrase,
    repeats,
    word_count,
)

SURE = {"logprob": -0.2, "no_speech": 0.05}


@pytest.mark.parametrize(
    ("text", "looped"),
    [
        ("What time is it in Paris right now?", False),
        ("No, no, no.", False),
        ("Very, very good, and very, very cheap.", False),
        ("No No No No No No", True),
        ("What time is it? What time is it? What time is it? What time is it?", True),
        ("So the ship sails. " + "I know that. " * 5, True),
        ("Ja. " * 4, True),
    ],
)
def test_loops_are_seen_and_emphasis_is_not(text: str, looped: bool):
    assert repeats(text) is looped
    assert ("repetition" in flaws(text, logprob=-0.2)) is looped


def test_long_loops_compress_too_well():
    assert compression_ratio("the same thing again and again and " * 20) > 2.4
    assert compression_ratio("Please book a table for four people at seven thirty.") < 1.5
    assert compression_ratio("") == 0


def test_each_flaw_has_its_name():
    assert flaws("Hello there.", logprob=-1.4) == ("low_confidence",)
    assert flaws("Hello there.", logprob=-0.1, at_limit=True) == ("cut_off",)
    fast = "one two three four five six seven eight nine"
    assert flaws(fast, logprob=-0.1, voiced_s=0.4) == ("too_fast",)
    assert flaws(fast, logprob=-0.1, voiced_s=2.5) == ()
    assert flaws(fast, logprob=-0.1) == ()
    assert flaws("Hello there.", logprob=-0.1, voiced_s=6) == ("too_slow",)
    assert flaws("One two three four.", logprob=-0.1, voiced_s=3) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("Hello there.", 2),
        ("Well - it's so.", 3),
        ("今日は天気", 2.5),
        ("今日は、天気。", 2.5),
        ("hello世界", 2),
        ("MBC 뉴스", 2),
        ("สวัสดีครับ", 3.5),
        ("សួស្តី", 1.5),
    ],
)
def test_words_are_counted_where_there_are_no_spaces(text: str, words: float):
    assert word_count(text) == words


@pytest.mark.parametrize(
    ("text", "echo"),
    [
        ("Can I bring my dog? Can I bring my dog?", True),
        ("No, no.", True),
        ("Very, very good.", False),
        ("Stop.", False),
        ("", False),
    ],
)
def test_an_echo_is_suspect_only_where_a_text_stood_before_it(text: str, echo: bool):
    assert is_echo(text) is echo
    assert flaws(text, logprob=-0.1, had_context=True) == (("repetition",) if echo else ())
    assert flaws(text, logprob=-0.1) == ()


@pytest.mark.parametrize("note", ["[BLANK_AUDIO]", "(wind blowing)", "♪♪", "*sighs*", " [Music]. "])
def test_remarks_are_no_speech(note: str):
    assert is_note(note)
    assert not is_spoken(note, **SURE)


def test_brackets_within_speech_are_no_remark():
    assert is_spoken("Call f(x) and then g(x), please.", **SURE)


@pytest.mark.parametrize("text", ["Thank you.", "you", "Thanks for watching!", "MBC 뉴스"])
def test_stock_phrases_need_a_voice(text: str):
    assert is_stock_phrase(text)
    assert is_spoken(text, **SURE, voiced_s=0.6)
    assert not is_spoken(text, **SURE, voiced_s=0.1)
    assert not is_spoken(text, logprob=-0.5, no_speech=0.95)


def test_silence_by_the_models_own_word_is_silence():
    assert not is_spoken("I am going home.", logprob=-1.5, no_speech=0.8)
    assert is_spoken("I am going home.", logprob=-0.5, no_speech=0.8)


@pytest.mark.parametrize("text", ["", " ", ".", "...", "?!"])
def test_marks_alone_are_no_speech(text: str):
    assert not is_spoken(text, **SURE)
