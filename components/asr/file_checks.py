"""Judging what Whisper made of a chunk whose speech a VAD has measured."""

from __future__ import annotations

from dataclasses import dataclass

from . import checks


@dataclass(frozen=True, slots=True)
class CheckRules:
    """Limits beyond which a chunk's text isn't believed.

    Words per minute count against the speech that the VAD found: a decoder that ends early says
    so nowhere else. The others are those of Whisper's authors.
    """

    compression_ratio: float = 2.4
    logprob: float = -1.0
    no_speech: float = 0.6
    slowest_wpm: float = 70.0
    fastest_wpm: float = 400.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What the checks need of a decoded chunk. `cut_off` when it ran into the length limit."""

    text: str
    logprob: float
    no_speech: float
    speech_s: float
    cut_off: bool = False


def faults(chunk: Judged, rules: CheckRules) -> tuple[str, ...]:
    """Names of the checks that the chunk fails, none if it is to be believed."""
    words = checks.word_count(chunk.text)
    wpm = words / max(chunk.speech_s, 0.5) * 60
    limits = checks.Limits(compression_ratio=rules.compression_ratio, logprob=rules.logprob)
    found = checks.flaws(chunk.text, logprob=chunk.logprob, at_limit=chunk.cut_off, limits=limits)
    if "repetition" not in found and says_twice(chunk.text):
        found = (*found, "repetition")
    if chunk.speech_s > 4 and wpm < rules.slowest_wpm:
        found = (*found, "too_few_words")
    if words > 6 and wpm > rules.fastest_wpm:
        found = (*found, "too_many_words")
    return found


def says_twice(text: str) -> bool:
    """Whether a text begins anew with its own beginning: four words of it stand there twice.

    Short audio makes the decoder do this. Speakers do it too, so it is worth a second look only.
    """
    words = checks.normalized(text).split()
    begin = words[:4]
    return len(begin) == 4 and any(
        words[place : place + 4] == begin for place in range(4, len(words) - 3)
    )


def is_silence(chunk: Judged, rules: CheckRules) -> bool:
    """Whether the text was invented over something that isn't speech."""
    if not checks.normalized(chunk.text) or checks.is_note(chunk.text):
        return True
    doubtful = chunk.no_speech > rules.no_speech
    if doubtful and chunk.logprob < rules.logprob:
        return True
    return checks.is_stock_phrase(chunk.text) and (doubtful or chunk.speech_s < 0.2)
