"""Tokens to text: the pieces join to what a whole decode says, cut at a stop string."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tinymodels import tokenizer

from motet.components.llm.detokenise import Detokeniser

texts = st.text(alphabet="abé€😀\n ", max_size=40)


@given(texts, st.lists(st.text(alphabet="abé\n ", min_size=1, max_size=4), max_size=3))
def test_pieces_join_to_the_text_before_the_first_stop(text: str, stops: list[str]) -> None:
    tokens = tokenizer()

    def decode(ids: list[int]) -> str:
        return str(tokens.decode(ids, skip_special_tokens=True))

    reader = Detokeniser(decode, tuple(stops))
    pieces: list[str] = []
    for token in tokens.encode(text, add_special_tokens=False):
        pieces.append(reader.push(token))
        if reader.stopped:
            break
    else:
        pieces.append(reader.finish())
    said = "".join(pieces)
    ends = [text.find(stop) for stop in stops if stop in text]
    assert "\ufffd" not in said
    if not ends:
        assert said == text
    else:
        assert text.startswith(said)
        assert not any(stop in said for stop in stops)
        assert any(text[len(said) :].startswith(stop) for stop in stops)
