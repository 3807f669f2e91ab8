"""The language of a file: a vote of its chunks."""

from __future__ import annotations

import pytest

from motet.components.asr.file_language import LanguageVote


def test_no_single_stretch_decides_the_language():
    vote = LanguageVote(None)
    first = vote.choose([{"nn": 0.4, "de": 0.35, "en": 0.25}], [4.0])
    assert first == ["nn"]
    rest = vote.choose([{"de": 0.95}, {"de": 0.9}, {"nn": 0.5, "de": 0.5}], [12, 12, 12])
    assert rest == ["de", "de", "de"]
    assert vote.language == "de"


def test_a_chunk_that_is_sure_keeps_its_own_language():
    vote = LanguageVote(None)
    assert vote.choose([{"en": 0.99}] * 5 + [{"fr": 0.97}], [10] * 6)[-1] == "fr"
    assert vote.choose([{"fr": 0.99}], [1.0]) == ["en"]


def test_languages_can_be_limited_or_settled():
    assert LanguageVote(None, ["de", "fr"]).choose([{"en": 0.8, "fr": 0.2}], [9]) == ["fr"]
    assert LanguageVote("de").language == "de"


def test_a_batch_heard_elsewhere_counts_as_one_heard_here():
    here, there = [{"de": 0.6, "en": 0.4}], [{"de": 0.3, "en": 0.7}, {"en": 0.9, "de": 0.1}]
    alone = LanguageVote(None)
    alone.choose(here, [2.0])
    expected = alone.choose(there, [8.0, 2.0])
    vote = LanguageVote(None)
    vote.choose(here, [2.0])
    lent = LanguageVote(None, (), vote.totals)
    assert lent.choose(there, [8.0, 2.0]) == expected
    vote.count(lent.heard)
    assert vote.totals == pytest.approx(alone.totals)
    assert vote.shares == alone.shares
