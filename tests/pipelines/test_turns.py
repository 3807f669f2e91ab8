"""Whose turn it is, and what a listener can have heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.pipelines.playback import Playback
from motet.pipelines.turns import TurnTaking


def spoken(turns: TurnTaking, name: str, text: str, *, answer: bool = True) -> None:
    turns.started(name)
    turns.stopped(name, dropped=False, answer=answer)
    turns.transcribed(name, text)


def test_an_answer_waits_for_all_that_is_being_said() -> None:
    turns = TurnTaking()
    turns.started("a")
    assert turns.due() is None
    turns.stopped("a", dropped=False, answer=True)
    assert turns.due() is None
    turns.started("b")
    turns.transcribed("a", "What is")
    assert turns.due() is None
    turns.stopped("b", dropped=False, answer=True)
    turns.transcribed("b", "the time?")
    assert turns.due() == "answer"
    turns.settled()
    assert turns.due() is None


@pytest.mark.parametrize("text", ["", " ", "...", "?!", "♪"])
def test_noise_gets_no_answer(text: str) -> None:
    turns = TurnTaking()
    spoken(turns, "a", text)
    assert turns.due() is None


@pytest.mark.parametrize("text", ["tak", "7", "はい"])
def test_short_words_do(text: str) -> None:
    turns = TurnTaking()
    spoken(turns, "a", text)
    assert turns.due() == "answer"


def test_a_noise_that_cut_a_reply_off_has_it_resumed() -> None:
    turns = TurnTaking()
    turns.started("cough")
    turns.interrupted()
    assert turns.due() is None
    turns.stopped("cough", dropped=False, answer=True)
    turns.transcribed("cough", "")
    assert turns.due() == "resume"


def test_a_dropped_utterance_resumes_too_and_words_answer_instead() -> None:
    turns = TurnTaking()
    turns.started("a")
    turns.interrupted()
    turns.stopped("a", dropped=True, answer=False)
    assert turns.due() == "resume"
    spoken(turns, "b", "stop")
    assert turns.due() == "answer"


def test_a_reply_on_the_way_answers_what_is_still_to_be_understood() -> None:
    turns = TurnTaking()
    turns.started("a")
    turns.stopped("a", dropped=False, answer=True)
    turns.settled()
    turns.transcribed("a", "hello")
    assert turns.due() is None


def test_the_player_never_runs_ahead_of_the_clock_or_of_what_was_sent() -> None:
    playback = Playback()
    playback.sent("a", 10_000, now_s=1.0)
    assert playback.stop(3.0) == {"a": 2000.0}
    assert playback.stop(3.5) == {}


def test_a_pause_in_the_audio_is_not_heard_as_audio() -> None:
    playback = Playback()
    playback.sent("a", 500, now_s=0.0)
    playback.sent("a", 1000, now_s=2.0)
    assert playback.stop(2.25) == {"a": 750.0}


def test_items_play_one_after_the_other() -> None:
    playback = Playback()
    playback.sent("a", 1000, now_s=0.0)
    playback.sent("b", 1000, now_s=0.1)
    assert playback.stop(1.5) == {"b": 500.0}
    playback.sent("c", 1000, now_s=2.0)
    playback.sent("d", 1000, now_s=2.0)
    assert playback.stop(2.5) == {"d": 0.0, "c": 500.0}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 500), st.floats(0, 1))))
def test_what_was_heard_lies_between_nothing_and_all(
    script: list[tuple[str, int, float]],
) -> None:
    playback, now_s = Playback(), 0.0
    sent: dict[str, float] = {}
    for name, length_ms, wait_s in script:
        now_s += wait_s
        playback.sent(name, length_ms, now_s)
        sent[name] = sent.get(name, 0) + length_ms
    for name, heard_ms in playback.stop(now_s).items():
        assert -1e-6 <= heard_ms <= min(sent[name], now_s * 1000) + 1e-6
