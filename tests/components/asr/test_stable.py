"""Partial transcripts never take back a word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.components.asr.checks import normalized
from motet.components.asr.stable import StablePrefix


def test_what_two_decodes_agree_on_is_shown():
    prefix = StablePrefix()
    assert prefix.push("What") is None
    assert prefix.push("What time") == "What"
    assert prefix.push("what time is") == "What time"
    assert prefix.push("What dime is it") is None
    assert prefix.push("What time is it in") is None
    assert prefix.push("What time is it in Paris?") == "What time is it in"
    assert prefix.push("What time is it in Paris, now?") == "What time is it in Paris,"


def test_the_end_of_a_sentence_waits_for_more():
    prefix = StablePrefix()
    prefix.push("I am here.")
    assert prefix.push("I am here.") == "I am here"
    prefix.push("I am here now")
    assert prefix.push("I am here, now and") == "I am here now"


def test_scripts_without_spaces_go_by_character():
    prefix = StablePrefix()
    prefix.push("今日は")
    assert prefix.push("今日は良い天気") == "今日は"
    assert prefix.push("今日は良い天気です") == "今日は良い天気"


WORDS = st.lists(st.sampled_from(["a", "b,", "B", "c.", "天", "気"]), max_size=8).map(" ".join)


@given(st.lists(WORDS, max_size=12))
def test_text_only_grows_and_was_agreed_on_by_two_in_a_row(hypotheses: list[str]):
    prefix, shown, last = StablePrefix(), "", None
    for hypothesis in hypotheses:
        grown = prefix.push(hypothesis)
        if grown is not None:
            assert grown.startswith(shown)
            assert len(grown) > len(shown)
            words = normalized(grown).replace(" ", "")
            assert normalized(hypothesis).replace(" ", "").startswith(words)
            assert normalized(last).replace(" ", "").startswith(words)
            shown = grown
        last = hypothesis
