"""Whisper's tokens: its special ones, prompts, and text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from ..errors import BadInput, nearest

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


_MULTILINGUAL = 51_865
"""So many tokens a vocabulary with languages has at least; CTranslate2 tells by that too."""


def tokens_of(folder: Path) -> Tokens | None:
    """The tokens of a model in CTranslate2's format, without its weights; None: it isn't whole."""
    lines, array = folder / "vocabulary.txt", folder / "vocabulary.json"
    if not (folder / "tokenizer.json").is_file():
        return None
    if lines.is_file():
        size = len(lines.read_bytes().splitlines())
    elif array.is_file():
        size = len(json.loads(array.read_bytes()))
    else:
        return None
    return Tokens(folder / "tokenizer.json", multilingual=size >= _MULTILINGUAL)


class Tokens:
    """The tokenizer of one model; English-only models know no languages and no tasks."""

    def __init__(self, path: Path, *, multilingual: bool) -> None:
        self._tokenizer = Tokenizer.from_file(str(path))
        self.multilingual = multilingual
        self.start = self._id("<|startoftranscript|>")
        self.end = self._id("<|endoftext|>")
        self.previous = self._id("<|startofprev|>")
        self.no_timestamps = self._id("<|notimestamps|>")
        self.timestamp_begin = self.no_timestamps + 1
        self.languages = self._languages() if multilingual else {"en": -1}

    def _id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise BadInput(f"the tokenizer has no {token}; it isn't Whisper's", where="model")
        return found

    def first_of(self, names: Sequence[str]) -> int | None:
        """The id of the first of these tokens that there is."""
        found = (self._tokenizer.token_to_id(name) for name in names)
        return next((token for token in found if token is not None), None)

    def _languages(self) -> dict[str, int]:
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        codes = {m[1]: n for token, n in vocabulary.items() if (m := _LANGUAGE.fullmatch(token))}
        return {code: n for code, n in codes.items() if self.start < n < self.no_timestamps}

    def check_language(self, language: str | None) -> str | None:
        """The language as the model's code ("en-US" is "en"); None stays None, to detect it.

        Raises:
            BadInput: the model doesn't know it.
        """
        if language is None:
            return None if self.multilingual else "en"
        code = language.replace("_", "-").split("-")[0].lower()
        if code not in self.languages:
            hint = nearest(code, sorted(self.languages))
            raise BadInput(f"language {language!r}; {hint}", where="asr", param="language")
        return code

    def header(self, language: str, task: str, *, timestamps: bool) -> list[int]:
        """What stands between the previous text and the transcript."""
        header = [self.start]
        if self.multilingual:
            header += [self.languages[language], self._id(f"<|{task}|>")]
        return header if timestamps else [*header, self.no_timestamps]

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, without special ones."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; special ones and timestamps are left out."""
        return self._tokenizer.decode([token for token in tokens if token < self.end])
