"""What is said for markup, whatever the stream cuts it into."""

from __future__ import annotations

from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from motet.components.tts.clean import Cleaner, Piece
from motet.components.tts.markup import END, URL, URL_END, URL_RULES

FRAGMENTS = (
    "**", "*", "_", "__", "~~", "`", "```", "```py\n", "\n", "\n\n", " ", "# ", "## ", "- ",
    "1. ", "> ", "| ", "|", "---", "===", "[", "](", ")", "]", "![", "https://a.b/c_(d)",
    "www.x.org", ".", ", ", "! ", "? ", "$", "$$", "\\(", "\\)", "\\[", "\\]", "\\frac{1}{2}",
    "<b>", "</b>", "<br>", "<think>", "</think>", "<", ">", "&amp;", "&", "✅",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "word", "Word", "snake_case", "3.14", "$5",
    "Dr. ", "e.g. ", "U.S. ", "J. K. ", "p.m. ", "v2.0", "C#", "->", "~5", "“", "”", "…",
    "\u3002", "\u65e5\u672c", "[^1]", "[1]", "\\*", "#tag", "- [ ] ", "\t", "\r\n", "x" * 90,
    "a b c d e f, ",
)  # fmt: skip

texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=30).map("".join)


def pieces(text: str, cuts: list[int]) -> list[Piece]:
    """Feed `text` cut at `cuts`."""
    cleaner, bounds = Cleaner(), [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    found = [piece for low, high in pairwise(bounds) for piece in cleaner.feed(text[low:high])]
    return found + cleaner.flush()


def joined(found: list[Piece]) -> list[Piece]:
    """The pieces with neighbours joined that aren't spoken: a tag's content comes as it comes."""
    whole: list[Piece] = []
    for piece in found:
        if piece.mark == "mute" and whole and whole[-1].mark == "mute":
            whole[-1] = Piece(whole[-1].source + piece.source, "", "mute")
        else:
            whole.append(piece)
    return whole


def said(text: str) -> str:
    """The words for `text`, fed character by character."""
    return " ".join("".join(p.spoken for p in pieces(text, list(range(len(text))))).split())


@given(texts, st.lists(st.integers(0, 2000), max_size=8))
def test_sources_join_and_no_cut_changes_anything(text: str, cuts: list[int]) -> None:
    whole, cut = pieces(text, []), pieces(text, cuts)
    assert "".join(piece.source for piece in cut) == text
    assert joined(cut) == joined(whole)


ADDRESSES = ("http://", "www.", "a.b/", "(", ")", "_(d)", ".", "!*", " ", '"', "]", "x" * 90)


@given(st.lists(st.sampled_from(ADDRESSES), max_size=40).map("".join), st.booleans())
def test_looking_for_an_end_first_changes_no_address(run: str, more: bool) -> None:
    text = "http://" + run + ("" if more else END)
    searched = regex.compile(rf"(?i)(?<![\w@]){URL}?{URL_END}", regex.DOTALL)
    plain = searched.match(text, 0, 2000, partial=more)
    found = URL_RULES[0].pattern.match(text, 0, 2000, partial=more)
    assert (found and not found.partial) == (plain and not plain.partial)
    if found and plain and not found.partial:
        assert found.span() == plain.span()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("**bold**, *ita*lic, ***both***, ~~gone~~", "bold, italic, both, gone"),
        ("__init__ and snake_case_name", "init and snake case name"),
        ("# Title #\n## Next", "Title Next"),
        ("- one\n* two\n+ three\n- [x] four", "one two three four"),
        ("1. Wash\n2) Dry", "1, Wash 2, Dry"),
        ("> quoted\n> twice", "quoted twice"),
        ("See [the *page*](https://a.b/c_(d)?e=f) now", "See the page now"),
        ("See [ref][1] and [https://www.a.org/x](https://www.a.org/x)", "See ref and a dot org"),
        ("![a cat](cat.png) purrs", "a cat purrs"),
        ("Go to https://www.example.com/a?b=c#d, then stop.", "Go to example dot com, then stop."),
        ("(see http://a.b.c/d_(e))", "(see a dot b dot c)"),
        ("<https://my-site.org>", "my site dot org"),
        ("Use `foo.bar()` or `my_name`", "Use foo dot bar or my name"),
        ("``a`b`` and `getUserName`", "a b and get User Name"),
        ("before\n```python\nx = **1**\n\n# no\n```\nafter", "before after"),
        ("~~~\ncode\n~~~\nafter", "after"),
        ("```\nnever closed", ""),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\ndone", "done"),
        ("done ✅ 🎉 👩‍👩‍👧 🇩🇪 ok", "done ok"),
        ("<b>bold</b> <span class='x'>text</span><br/>next", "bold text next"),
        ("<think>I ponder\n\nthis</think>Hello", "Hello"),
        ("<!-- hidden --> a &lt; b &amp; c", "a < b & c"),
        ("x < y and y > z", "x < y and y > z"),
        ("as shown[^1] before [2], [3-5].\n[^1]: the note", "as shown before , ."),
        (r"So \(\sqrt{x}\) of $x^2$ costs $5", "So the square root of x of x squared costs $5"),
        (r"\[\frac{a}{b} = c_1\]", "a over b equals c 1"),
        (r"\*not\* \_em\_", "not em"),
        ("2 * 3 is 6, **2*3** too", "2 times 3 is 6, 2 times 3 too"),
        ("It costs $3.14, or 50% of ~7 in C#", "It costs $3.14, or 50% of about 7 in C sharp"),
        ("Node.js v2.0 on example.com", "Node dot js version 2.0 on example dot com"),
        ("e.g. U.S. at 3 p.m. and 1.5", "e.g. U.S. at 3 p.m. and 1.5"),
        ("Title\n=====\nText\n---\nMore", "Title Text More"),
        ("a -> b => c -- d", "a to b to c — d"),
        ("#tag and #1", "tag and #1"),
        ("50%\u201360% of $5\u2013$9", "50% to 60% of $5 to $9"),
        ("a \\ b {c} | d", "a b c , d"),
    ],
)  # fmt: skip
def test_words(text: str, words: str) -> None:
    assert said(text) == words


@pytest.mark.parametrize(
    "text", ["*" * 5000, "`" * 5000, "[" * 5000, " " * 5000, "\n" * 5000, "<a " * 2000, "$a" * 2000]
)
def test_runs_are_read_in_linear_time(text: str) -> None:
    found = pieces(text, list(range(0, len(text), 3)))
    assert "".join(piece.source for piece in found) == text


@pytest.mark.parametrize("text", ["[" + "a" * 400, "`" + "a" * 400, "$" + "a" * 400])
def test_what_does_not_close_is_text_after_a_while(text: str) -> None:
    cleaner = Cleaner()
    early = "".join(piece.spoken for piece in cleaner.feed(text))
    assert "a" * 90 in early
