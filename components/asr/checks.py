"""Is a transcript one? Checks for loops, guesses and sentences that nobody said."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

# What Whisper likes to write where nobody speaks: leftovers of the subtitles it learned from.
_PHRASES = frozenset(
    line.strip()
    for line in """
        you
        thank you
        thanks
        thank you very much
        thank you so much
        bye
        bye bye
        okay
        oh
        so
        the
        i
        thank you for watching
        thanks for watching
        thank you so much for watching
        please subscribe
        like and subscribe
        dont forget to subscribe
        see you next time
        subtitles by the amara org community
        untertitel der amara org community
        sous titres réalisés par la communauté damara org
        字幕由amara org社区提供
        ご視聴ありがとうございました
        시청해주셔서 감사합니다
        mbc 뉴스
    """.splitlines()
    if line.strip()
)
_NOTE = re.compile(r"[\s.,!?…]*([\[(♪*].*[\])♪*]|♪+)[\s.,!?…]*", re.DOTALL)
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_MARKS = re.compile(r"[^\w\s]|_")


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond these a decode isn't trusted; the first three are those of Whisper's authors.

    Words per second of voiced audio: more than `words_per_s` (from `few_words` words on) can't be
    said, less than `least_words_per_s` (from `long_s` on) means that some were left out.
    """

    compression_ratio: float = 2.4
    logprob: float = -1.0
    no_speech: float = 0.6
    words_per_s: float = 7.0
    few_words: int = 6
    least_words_per_s: float = 1.0
    long_s: float = 4.0


def compression_ratio(text: str) -> float:
    """Bytes of the text over its bytes compressed: a loop compresses too well."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0


def normalized(text: str) -> str:
    """Lower case, without punctuation, single spaces."""
    return " ".join(_MARKS.sub(" ", text.lower().replace("'", "")).split())


def word_count(text: str) -> float:
    """Words; where they aren't parted by spaces, two characters count as one."""
    plain = _MARKS.sub("", text)
    characters = len(_UNSPACED.findall(plain))
    return len(_UNSPACED.sub(" ", plain).split()) + characters / 2


def is_note(text: str) -> bool:
    """Whether it is only a remark in brackets, or notes of music."""
    return bool(_NOTE.fullmatch(text))


def is_stock_phrase(text: str) -> bool:
    """Whether it is a sentence that Whisper is known to invent."""
    return normalized(text) in _PHRASES


def repeats(text: str, *, times: int = 4) -> bool:
    """Whether one to six words stand at least `times` times in a row."""
    words = normalized(text).split()
    for length in range(1, 7):
        run = 1
        for n in range(length, len(words) - length + 1, length):
            same = words[n : n + length] == words[n - length : n]
            run = run + 1 if same else 1
            if run >= times:
                return True
    return False


def is_echo(text: str) -> bool:
    """Whether it is one phrase said two or more times, and nothing else.

    People do that ("no, no"), but so does Whisper, when a text stands before short speech.
    """
    words = normalized(text).split()
    return any(
        len(words) % length == 0 and words == words[:length] * (len(words) // length)
        for length in range(1, len(words) // 2 + 1)
    )


def flaws(
    text: str,
    *,
    logprob: float,
    at_limit: bool = False,
    had_context: bool = False,
    voiced_s: float | None = None,
    limits: Limits | None = None,
) -> tuple[str, ...]:
    """What speaks against a decode, worth another try: "repetition", "low_confidence", "too_fast",
    "too_slow", "cut_off". `at_limit` says that it ended because it got too long,
    `had_context` that a text stood before it.
    """
    limits = limits or Limits()
    found: list[str] = []
    looped = compression_ratio(text) > limits.compression_ratio or repeats(text)
    if looped or (had_context and is_echo(text)):
        found.append("repetition")
    if logprob < limits.logprob:
        found.append("low_confidence")
    words = word_count(text)
    possible = limits.words_per_s * max(voiced_s or 0.0, 0.5)
    if voiced_s is not None and words > max(possible, limits.few_words):
        found.append("too_fast")
    least = limits.least_words_per_s * (voiced_s or 0.0)
    if voiced_s is not None and voiced_s >= limits.long_s and words < least:
        found.append("too_slow")
    if at_limit:
        found.append("cut_off")
    return tuple(found)


def is_spoken(
    text: str,
    *,
    logprob: float,
    no_speech: float,
    voiced_s: float | None = None,
    limits: Limits | None = None,
) -> bool:
    """Whether somebody said this, as far as one can tell from what the model thinks of it.

    `voiced_s` is how much voice a VAD heard, None if none listened. Call it on a decode that was
    tried again where it had `flaws`.
    """
    limits = limits or Limits()
    if not normalized(text) or is_note(text):
        return False
    if no_speech > limits.no_speech and logprob < limits.logprob:
        return False
    found = flaws(text, logprob=logprob, voiced_s=voiced_s, limits=limits)
    if "repetition" in found or "too_fast" in found:
        return False
    if is_stock_phrase(text):
        faint = voiced_s is not None and voiced_s < 0.2
        return not (faint or no_speech > limits.no_speech or logprob < limits.logprob)
    return True
