"""Clauses for speech: real ends, an early first one, the same whatever the stream cuts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.components.tts import sentences as cutting
from motet.components.tts.sentences import Clause, Clauses, Cuts, sentence_end

from .test_clean import texts

LATE = Cuts(first_chars=10_000, first_limit=250)


def clauses(text: str, cuts: list[int], lengths: Cuts | None = None) -> list[Clause]:
    maker, bounds = Clauses(lengths), [0, *sorted(c % (len(text) + 1) for c in cuts), len(text)]
    found = [clause for low, high in pairwise(bounds) for clause in maker.feed(text[low:high])]
    return found + maker.flush()


def sentences(text: str) -> list[str]:
    """Sentences without the early first cut, fed character by character."""
    return [c.spoken for c in clauses(text, list(range(len(text))), LATE) if c.spoken]


@given(texts, st.lists(st.integers(0, 2000), max_size=8))
def test_slices_join_and_no_cut_changes_a_clause(text: str, cuts: list[int]) -> None:
    whole, cut = clauses(text, []), clauses(text, cuts)
    assert "".join(clause.source for clause in cut) == text
    assert cut == whole
    assert all(len(clause.spoken) <= 280 for clause in cut)
    assert all(clause.source for clause in cut)


@pytest.mark.parametrize(
    "expected",
    [
        ["It costs $3.14.", "Dr. Lee came."],
        ["Dr. Lee, version 2.0 e.g. U.S. 3 p.m. Jan 1, 1980.", "Next."],
        ["By J. K. Rowling and George W. Bush.", "Then we left."],
        ["I met Mr. and Mrs. Smith at 5 p.m. on Main St. today.", "They waved."],
        ["We live in the U.S.", "The weather is fine."],
        ["Take plan B.", "It works."],
        ["So do I.", "He doesn't."],
        ['"Really?" she said.', "He nodded."],
        ['He said "Stop."', "She did."],
        ["Wait... what?", "No!!!", "Yes."],
        ["And so on...", "The end."],
        ["See Fig. 3 and No. 5 for approx. ten of them.", "Good."],
        ["Apples, pears, etc. are fruit.", "He works at Acme Inc.", "They pay well."],
        ["Born Jan. 5, 1980.", "Died in 2020.", "Rest."],
        ["Visit example dot com.", "Then call 555.1234 now."],
        ["(It works.)", "Fine."],
        ["今日は晴れです。", "「はい\uff01」", "そうですね"],
        ["क्या हाल है।", "ठीक है।"],
        ["the model writes small.", "it never uses capitals.", "fine."],
    ],
)
def test_sentence_ends(expected: list[str]) -> None:
    written = " ".join(expected).replace("version 2.0", "v2.0").replace("example dot", "example.")
    wide = all(sentence[0] > "\u3000" for sentence in expected)
    text = "".join(expected) if wide else written.replace("example. com", "example.com")
    assert sentences(text) == expected


def test_lines_and_blocks_are_clauses() -> None:
    text = (
        "# Plan\n- wash\n- dry\n\nIt goes on\nin small letters.\n```py\nx\n```\n| a |\n|---|\nDone"
    )
    found = clauses(text, list(range(len(text))), LATE)
    assert [c.spoken for c in found] == [
        "Plan", "wash", "dry", "It goes on in small letters.", "", "Done",
    ]  # fmt: skip
    assert found[4].source == "```py\nx\n```\n| a |\n|---|\n"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Sure, I can help you with that, my friend, at once.", "Sure, I can help you with that,"),
        ("Yes. It is.", "Yes."),
        ("On Jan 1, 1980, it began, they say.", "On Jan 1, 1980,"),
        ("One two three, four.", "One two three,"),
        ("Well, then, no.", "Well, then, no."),
    ],
)
def test_the_first_clause_comes_early(text: str, first: str) -> None:
    assert clauses(text, [])[0].spoken == first


def test_a_clause_comes_with_the_word_behind_it_and_not_later() -> None:
    maker = Clauses(LATE)
    assert [*maker.feed("It costs $3.14 today.")] == []
    assert [*maker.feed(" ")] == []
    assert [c.spoken for c in [*maker.feed("Then ")]] == ["It costs $3.14 today."]


@pytest.mark.parametrize("word", ["word ", "x", "word, ", "日"])
def test_no_clause_is_long(word: str) -> None:
    found = clauses(word * (3000 // len(word)), [])
    assert all(len(clause.spoken) <= 250 for clause in found)
    assert len(found[0].spoken) <= 120
    spoken = "".join(clause.spoken for clause in found).replace(" ", "")
    assert spoken == word.strip() * (3000 // len(word))


def test_a_long_sentence_is_cut_at_a_comma() -> None:
    text = "It begins. " + "many words go on here " * 8 + "until a comma, " + "and then more " * 10
    assert clauses(text, [])[1].spoken.endswith("until a comma,")


def test_nothing_to_say_gives_no_words() -> None:
    for text in ("...", "\n\n", "***", "✅ 🎉", "```\nx\n```", "— — —"):
        found = clauses(text, [])
        assert "".join(c.source for c in found) == text
        assert not any(clause.spoken for clause in found)
    assert clauses("", []) == []


@pytest.mark.parametrize("unit", ["a b c. ", "Dr. ", "...", "3.5 ", "word "])
def test_a_long_text_costs_in_proportion(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0

    def counted(*given: Any, **named: Any) -> int | bool | None:
        nonlocal judged
        judged += 1
        return sentence_end(*given, **named)

    monkeypatch.setattr(cutting, "sentence_end", counted)
    maker = Clauses()
    waiting = iter(maker.feed(unit * 4000))
    first = next(waiting)
    assert first.source
    assert judged < 2_000, "the first clause waits for the rest"
    assert [*waiting, *maker.flush()]
    assert judged < 20_000, "marks are judged again for every letter behind them"
