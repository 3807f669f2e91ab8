"""Phonemes for Piper voices: from Hibari's dictionary for English, from eSpeak for the rest.

Piper's voices are trained on eSpeak's phonemes. eSpeak and the packages that carry it are GPL, so
nothing here needs them for English: Hibari's phonemes (Apache-2.0) are the same sounds in
another spelling.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from typing import Any, Protocol, cast

import regex

SPELLING = {
    "A": "e\u026a",
    "I": "a\u026a",
    "W": "aʊ",
    "Y": "ɔ\u026a",
    "O": "oʊ",
    "Q": "əʊ",
    "ʤ": "dʒ",
    "ʧ": "tʃ",
    "T": "ɾ",
    "ᵊ": "ə",
    "—": ",",
    "…": ".",
    "“": "",
    "”": "",
    '"': "",
}
RHOTIC = regex.compile(r"ɜɹ|əɹ")
LONG = regex.compile(r"(?<=[ˈˌ])([iu\u0251ɔ])(?!\u02d0)")


class Phonemizer(Protocol):
    """Phonemes for a clause, one character each, as the voice was trained on."""

    def __call__(self, text: str) -> str: ...


def espeak_here() -> bool:
    """Whether the package that carries eSpeak (piper-tts, GPL-3.0) is installed."""
    return importlib.util.find_spec("piper") is not None


def respell(phonemes: str) -> str:
    """Hibari's spelling in eSpeak's: diphthongs in two letters, long vowels marked."""
    text = RHOTIC.sub(lambda found: "ɜ\u02d0" if found[0][0] == "ɜ" else "ɚ", phonemes)
    text = LONG.sub("\\1\u02d0", text)
    return "".join(SPELLING.get(sign, sign) for sign in text)


class HibariPhonemes:
    """English, American or British."""

    def __init__(self, *, british: bool) -> None:
        from hibari.g2p import G2P  # pyright: ignore[reportMissingTypeStubs]

        self._convert = cast(Any, G2P(british=british))

    def __call__(self, text: str) -> str:
        return respell(str(self._convert(text)))


class EspeakPhonemes:
    """Every language that eSpeak knows, by its name there ("de", "en-us")."""

    def __init__(self, voice: str) -> None:
        from piper.phonemize_espeak import (  # pyright: ignore[reportMissingImports]
            EspeakPhonemizer,  # pyright: ignore[reportUnknownVariableType]
        )

        self._voice = voice
        self._convert = cast(Any, EspeakPhonemizer())

    def __call__(self, text: str) -> str:
        sentences: list[list[str]] = self._convert.phonemize(self._voice, text)
        return " ".join("".join(signs) for signs in sentences)


def phonemizer(language: str, wanted: str) -> Phonemizer:
    """The phonemizer for eSpeak's name of a language; `wanted` "auto", "hibari" or "espeak"."""
    english = language.lower().startswith("en")
    if wanted == "hibari" or (wanted == "auto" and english):
        return HibariPhonemes(british=english and not language.lower().startswith("en-us"))
    return EspeakPhonemes(language)


def spelled(phonemes: str) -> list[str]:
    """The signs of a phoneme string, accents apart, as Piper's tables list them."""
    return list(unicodedata.normalize("NFD", phonemes))
