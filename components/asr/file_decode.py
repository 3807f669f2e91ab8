"""Decoding chunks of a file with Whisper: short mels, batches, checks, and retries for what fails.

Measured on CPUs: the encoder runs fastest one chunk at a time, cut to the chunk's length with a
tail of silence (without which the decoder loops); the decoder runs fastest in batches.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from ..audio import Floats, to_float
from ..frames import Word
from ..heap import trim
from ..mel import FRAMES_PER_S, log_mel
from .checks import compression_ratio
from .file_checks import CheckRules, Judged, faults, is_silence
from .file_chunks import Chunk
from .file_language import LanguageVote
from .file_split import halves
from .file_words import hold_to_speech, words_of
from .requests import WINDOW_FRAMES
from .whisper import Whisper, view

_TOKENS_PER_S = 9
_HOT = 0.4
_HOTTEST = 0.8
_DEEPEST = 2
# Alignment keeps a probability for every token of the vocabulary at every position: larger groups
# are slower, as that leaves the cache, and cost 12 MB a chunk.
_ALIGNED_AT_ONCE = 2


class Stopped(Exception):
    """The file's request was cancelled while this batch was at work."""


@dataclass(frozen=True, slots=True)
class Ask:
    """How to decode one file; `context` are tokens of prompt and hotwords."""

    task: Literal["transcribe", "translate"] = "transcribe"
    context: tuple[int, ...] = ()
    beam_size: int = 5
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class ChunkText:
    """What a chunk says: words on the chunk's clock, and how far to trust them."""

    text: str
    language: str
    words: tuple[Word, ...] = ()
    tokens: tuple[int, ...] = ()
    logprob: float = 0.0
    no_speech: float = 0.0
    compression_ratio: float = 0.0
    temperature: float = 0.0
    marks: tuple[str, ...] = ()
    tries: int = 1


@dataclass(frozen=True, slots=True)
class _Heard:
    """A decode before its words are placed; `encoded` is the encoder's output it came from."""

    chunk: Chunk
    result: ChunkText
    encoded: Floats


class ChunkDecoder:
    """Decodes batches of chunks; one for all files, used from several threads at once.

    What is decoded again has no more than `frames` at once, or is one chunk.
    """

    def __init__(self, engine: Whisper, rules: CheckRules, frames: int) -> None:
        self._engine = engine
        self._rules = rules
        self._full_at_once = max(1, frames // WINDOW_FRAMES)

    def decode(
        self, chunks: Sequence[Chunk], ask: Ask, vote: LanguageVote, stop: threading.Event
    ) -> list[ChunkText]:
        """The text of each chunk; blocks. Silence comes back as an empty text.

        Raises:
            Stopped: `stop` was set meanwhile.
        """
        heard = self._once(chunks, ask, vote, stop)
        for temperature in (0.0, _HOT):
            self._again(heard, ask, vote, stop, temperature)
        done = [self._finish(one) for one in self._align(heard)]
        for place, result in enumerate(done):
            if result.marks:
                done[place] = self._smaller(chunks[place], result, ask, vote, stop, depth=1)
        trim()
        return done

    def _again(
        self,
        heard: list[_Heard],
        ask: Ask,
        vote: LanguageVote,
        stop: threading.Event,
        temperature: float,
    ) -> None:
        """Decode once more what failed: at full length, as in training, and this hot at least."""
        failed = [place for place, one in enumerate(heard) if one.result.marks]
        hotter = replace(ask, temperature=max(temperature, ask.temperature), context=())
        for start in range(0, len(failed), self._full_at_once):
            some = failed[start : start + self._full_at_once]
            chunks = [heard[place].chunk for place in some]
            fresh = self._once(chunks, hotter, vote, stop, full=True)
            for place, new in zip(some, fresh, strict=True):
                heard[place] = _better(heard[place], new)

    def _smaller(
        self,
        chunk: Chunk,
        result: ChunkText,
        ask: Ask,
        vote: LanguageVote,
        stop: threading.Event,
        depth: int,
    ) -> ChunkText:
        """Cut a failed chunk at its quietest place, decode the halves, and take them if better."""
        parts = halves(chunk)
        if len(parts) < 2:
            return result
        heard = self._once(parts, replace(ask, context=()), vote, stop)
        self._again(heard, ask, vote, stop, _HOTTEST if depth > 1 else 0.0)
        done = [self._finish(one) for one in self._align(heard)]
        if depth < _DEEPEST:
            for place, half in enumerate(done):
                if half.marks:
                    part = parts[place]
                    done[place] = self._smaller(part, half, ask, vote, stop, depth + 1)
        joined = _joined(chunk, parts, done)
        judged = _judged(joined, chunk.speech_s)
        joined = replace(joined, marks=faults(judged, self._rules), tries=result.tries + 1)
        return min((joined, result), key=lambda one: (len(one.marks), -one.logprob))

    def _once(
        self,
        chunks: Sequence[Chunk],
        ask: Ask,
        vote: LanguageVote,
        stop: threading.Event,
        *,
        full: bool = False,
    ) -> list[_Heard]:
        longest_s = max(chunk.duration_s for chunk in chunks)
        frames = WINDOW_FRAMES if full else max(chunk.frames for chunk in chunks)
        encoded = [self._encode(chunk, frames, stop) for chunk in chunks]
        languages = self._languages(encoded, chunks, vote)
        if stop.is_set():
            raise Stopped
        tokens = self._engine.tokens
        start = [tokens.previous, *ask.context] if ask.context else []
        prompts = [
            start + tokens.header(language, ask.task, timestamps=False) for language in languages
        ]
        limit = min(int(longest_s * _TOKENS_PER_S) + 12, 448 - len(prompts[0]))
        results = self._engine.model.generate(
            view(np.stack(encoded)),
            prompts,
            beam_size=1 if ask.temperature else ask.beam_size,
            sampling_temperature=ask.temperature or 1.0,
            sampling_topk=0 if ask.temperature else 1,
            max_length=len(prompts[0]) + limit,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return [
            _Heard(chunk, self._read(chunk, language, result, ask, limit), output)
            for chunk, language, result, output in zip(
                chunks, languages, results, encoded, strict=True
            )
        ]

    def _encode(self, chunk: Chunk, frames: int, stop: threading.Event) -> Floats:
        """Encoder output (frames / 2, width) of one chunk."""
        if stop.is_set():
            raise Stopped
        mel = log_mel(to_float(chunk.pcm), mels=self._engine.mels, frames=frames)
        return np.asarray(self._engine.model.encode(view(mel[None]), to_cpu=True))[0]

    def _languages(
        self, encoded: Sequence[Floats], chunks: Sequence[Chunk], vote: LanguageVote
    ) -> list[str]:
        """One by one: what the decoder keeps of a whole batch's sound would be 125 MB (base)."""
        if vote.settled is not None:
            return [vote.settled] * len(chunks)
        found = [self._engine.detect_languages(view(one[None]))[0] for one in encoded]
        return vote.choose([dict(one) for one in found], [chunk.speech_s for chunk in chunks])

    def _read(self, chunk: Chunk, language: str, result: Any, ask: Ask, limit: int) -> ChunkText:
        ids = cast("list[int]", result.sequences_ids[0])
        text = self._engine.tokens.decode(ids)
        read = ChunkText(
            text=text,
            language=language,
            tokens=tuple(token for token in ids if token < self._engine.tokens.end),
            logprob=float(result.scores[0]) * len(ids) / (len(ids) + 1),
            no_speech=float(result.no_speech_prob),
            compression_ratio=round(compression_ratio(text), 3),
            temperature=ask.temperature,
        )
        judged = _judged(read, chunk.speech_s)
        if is_silence(judged, self._rules) and chunk.speech_s < 4:
            return replace(read, text="", tokens=())
        return replace(read, marks=faults(replace(judged, cut_off=len(ids) >= limit), self._rules))

    def _align(self, heard: Sequence[_Heard]) -> list[_Heard]:
        """Place the words of each decode; decodes of one length and language go together."""
        groups: dict[tuple[int, str], list[int]] = {}
        for place, one in enumerate(heard):
            if one.result.tokens:
                key = (len(one.encoded), one.result.language)
                groups.setdefault(key, []).append(place)
        placed = list(heard)
        for (_, language), members in groups.items():
            for start in range(0, len(members), _ALIGNED_AT_ONCE):
                some = members[start : start + _ALIGNED_AT_ONCE]
                found = self._words([heard[place] for place in some], language)
                for place, words in zip(some, found, strict=True):
                    result = replace(heard[place].result, words=tuple(words))
                    placed[place] = replace(heard[place], result=result)
        return placed

    def _words(self, heard: Sequence[_Heard], language: str) -> list[list[Word]]:
        tokens = self._engine.tokens
        aligned = self._engine.model.align(
            view(np.stack([one.encoded for one in heard])),
            tokens.header(language, "transcribe", timestamps=False)[:-1],
            [list(one.result.tokens) for one in heard],
            [int(one.chunk.duration_s * FRAMES_PER_S) for one in heard],
            median_filter_width=7,
        )
        return [
            words_of(tokens, one.result.tokens, found, language, one.chunk.duration_s)
            for one, found in zip(heard, aligned, strict=True)
        ]

    @staticmethod
    def _finish(one: _Heard) -> ChunkText:
        words = hold_to_speech(one.result.words, one.chunk.spans_s)
        return replace(one.result, words=tuple(words), text=one.result.text.strip())


def _judged(text: ChunkText, speech_s: float) -> Judged:
    return Judged(text.text, text.logprob, text.no_speech, speech_s)


def _better(old: _Heard, new: _Heard) -> _Heard:
    best = min((old, new), key=lambda one: (len(one.result.marks), -one.result.logprob))
    return replace(best, result=replace(best.result, tries=old.result.tries + 1))


def _joined(chunk: Chunk, parts: Sequence[Chunk], done: Sequence[ChunkText]) -> ChunkText:
    """The halves' texts as one, their words on the whole chunk's clock."""
    words: list[Word] = []
    for part, text in zip(parts, done, strict=True):
        shift_s = part.start_s - chunk.start_s
        words += [
            replace(word, start_s=word.start_s + shift_s, end_s=word.end_s + shift_s)
            for word in text.words
        ]
    text = " ".join(one.text for one in done if one.text)
    longest = max(done, key=lambda one: len(one.text))
    return replace(
        longest,
        text=text,
        words=tuple(words),
        tokens=tuple(token for one in done for token in one.tokens),
        logprob=min(one.logprob for one in done),
        no_speech=max(one.no_speech for one in done),
        compression_ratio=round(compression_ratio(text), 3),
    )
