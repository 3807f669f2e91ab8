"""Words of tokens, and when they are said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from motet.components.asr.file_words import hold_to_speech, split_words, words_of
from motet.components.frames import Word


class Letters:
    """Tokens whose text is given; multi-byte characters are split over two tokens."""

    table = (" Hello", ",", " “", "world", ".”", "\ufffd", "é", " a")

    def decode(self, ids):
        text = "".join(self.table[number] for number in ids)
        return text.replace("\ufffdé", "é")


def test_words_join_to_the_text_and_keep_their_marks():
    ids = [0, 1, 2, 3, 4, 7, 5, 6]
    words = split_words(Letters(), ids, "en")
    assert [text for text, _ in words] == [" Hello,", " “world.”", " aé"]
    assert sum(count for _, count in words) == len(ids)


def test_words_of_scripts_without_spaces_stand_alone():
    table = SimpleNamespace(decode=lambda ids: "".join("今日は。"[number] for number in ids))
    words = split_words(table, [0, 1, 2, 3], "ja")
    assert [text for text, _ in words] == ["今", "日", "は。"]


def test_times_come_from_the_alignment():
    table = SimpleNamespace(decode=lambda ids: "".join((" one", " two")[number] for number in ids))
    aligned = SimpleNamespace(
        alignments=[(0, 10), (0, 11), (1, 30), (2, 60)], text_token_probs=[0.9, 0.8]
    )
    first, second = words_of(table, [0, 1], aligned, "en", 3.0)
    assert (first.start_s, first.end_s, second.end_s) == (0.2, 0.6, 1.2)
    assert second.probability == pytest.approx(0.8)


def test_words_are_held_to_speech():
    spans = [(1.0, 2.0), (4.0, 5.0)]
    words = [Word(" a", 0.2, 1.5), Word(" b", 1.6, 3.9), Word(" c", 2.6, 4.8), Word(" d", 2.5, 2.9)]
    held = [(round(w.start_s, 2), round(w.end_s, 2)) for w in hold_to_speech(words, spans)]
    assert held == [(0.9, 1.5), (1.6, 2.1), (3.9, 4.8), (2.5, 2.9)]
