"""The Whisper engine on CTranslate2: stretches of up to 30 s in, checked text out, in batches.

It knows nothing of sessions, turns or files: `asr/ct2` streams through it, and so may others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import ctranslate2  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from ..audio import Floats
from ..errors import BadInput, MissingRequirement
from ..mel import log_mel
from . import checks
from .requests import (
    CONTEXT_STEP,
    MAX_CONTEXT,
    WINDOW_S,
    Decoded,
    Request,
    better,
    full_length,
    sampled,
)
from .tokens import Tokens

Device = Literal["cpu", "cuda", "auto"]


class Whisper:
    """One model in memory; its `Request`s and `Decoded`s are in `asr.requests`.

    Methods block and belong in a thread (`batching.Batcher`'s).

    Raises:
        MissingRequirement: the folder isn't a Whisper model in CTranslate2's format.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: Device = "cpu",
        compute_type: str = "int8",
        threads: int = 1,
        workers: int = 1,
    ) -> None:
        for name in ("model.bin", "tokenizer.json"):
            if not (folder / name).is_file():
                raise MissingRequirement(
                    f"{folder} has no {name}; a CTranslate2 Whisper model is expected", where="asr"
                )
        self.model: Any = cast(Any, ctranslate2).models.Whisper(
            str(folder),
            device=device,
            compute_type=compute_type,
            intra_threads=threads,
            inter_threads=workers,
        )
        self.tokens = Tokens(folder / "tokenizer.json", multilingual=self.model.is_multilingual)
        self.mels = int(self.model.n_mels)
        self._batched_encoder = self.model.device != "cpu"

    def transcribe(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode, check, and decode again what fails a check: at full length, then sampled.

        Raises:
            BadInput: a stretch is empty or over 30 s, or its language unknown.
        """
        found = self.decode_once(requests)
        for step, retry in enumerate((full_length, sampled), 2):
            failed = [n for n, one in enumerate(found) if one.flaws and not one.is_silence]
            again = {n: retry(requests[n]) for n in failed if requests[n].tries >= step}
            again = {n: request for n, request in again.items() if request is not None}
            redone = self.decode_once(list(again.values()))
            for n, new in zip(again, redone, strict=True):
                found[n] = better(found[n], new)
        return found

    def decode_once(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode without retries: the encoder one by one (on a CPU), the decoder in batches."""
        began_s = time.perf_counter()
        for request in requests:
            self.check(request)
        encoded = self.encode(requests)
        languages = self._languages(requests, encoded)
        groups: dict[object, list[int]] = {}
        for n, request in enumerate(requests):
            key = (request.frames, len(self._context(request)), request.beam_size)
            key += (request.temperature, request.timestamps)
            groups.setdefault(key, []).append(n)
        found: dict[int, Decoded] = {}
        for members in groups.values():
            answers = self._generate(
                [requests[n] for n in members],
                [encoded[n] for n in members],
                [languages[n] for n in members],
            )
            found.update(zip(members, answers, strict=True))
        took_ms = (time.perf_counter() - began_s) * 1000
        return [replace(found[n], compute_ms=took_ms) for n in range(len(requests))]

    def check(self, request: Request) -> None:
        """Refuse what can't be decoded, before it costs anything."""
        if not 0 < request.duration_s <= WINDOW_S:
            raise BadInput(
                f"a stretch of {request.duration_s:.2f} s; possible: above 0, up to {WINDOW_S}",
                where="asr",
            )
        self.tokens.check_language(request.language)

    def encode(self, requests: Sequence[Request]) -> list[Floats]:
        """Encoder outputs, each of shape (frames / 2, width)."""
        mels = [log_mel(one.samples, mels=self.mels, frames=one.frames) for one in requests]
        if self._batched_encoder and len({mel.shape for mel in mels}) == 1:
            return list(self._encode(np.stack(mels)))
        # On a CPU a batch is slower than one by one: its attention no longer fits the cache.
        return [self._encode(mel[None])[0] for mel in mels]

    def _encode(self, mels: Floats) -> Floats:
        return np.asarray(self.model.encode(_view(mels), to_cpu=True), np.float32)

    def _languages(self, requests: Sequence[Request], encoded: Sequence[Floats]) -> list[str]:
        known = [self.tokens.check_language(request.language) for request in requests]
        return [
            language or self.detect_language(features)[0][0]
            for language, features in zip(known, encoded, strict=True)
        ]

    def detect_language(self, encoded: Floats) -> list[tuple[str, float]]:
        """Languages and their probabilities, likeliest first, from an encoder output."""
        if not self.tokens.multilingual:
            return [("en", 1.0)]
        (found,) = self.model.detect_language(_view(encoded[None]))
        return [(token.strip("<|>"), float(probability)) for token, probability in found]

    def _context(self, request: Request) -> list[int]:
        """The previous text with its start token, its length a multiple of 16 (or none at all)."""
        length = min(len(request.context), MAX_CONTEXT - 1) // CONTEXT_STEP * CONTEXT_STEP
        return [self.tokens.previous, *request.context[-length:]] if length else []

    def _generate(
        self, requests: list[Request], encoded: list[Floats], languages: list[str]
    ) -> list[Decoded]:
        """Decode a group that shares everything but audio, words of context and language."""
        first = requests[0]
        prompts = [
            self._context(one) + self.tokens.header(language, one.task, timestamps=one.timestamps)
            for one, language in zip(requests, languages, strict=True)
        ]
        limit = max(one.token_limit for one in requests)
        results = self.model.generate(
            _view(np.stack(encoded)),
            prompts,
            beam_size=1 if first.temperature else first.beam_size,
            sampling_temperature=first.temperature or 1.0,
            sampling_topk=0 if first.temperature else 1,
            # It writes at most half of this, and no more than this less the prompt.
            max_length=max(2 * limit, len(prompts[0]) - 1 + limit),
            return_scores=True,
            return_no_speech_prob=True,
            max_initial_timestamp_index=50,
        )
        return [
            self._decoded(request, language, result, limit)
            for request, language, result in zip(requests, languages, results, strict=True)
        ]

    def _decoded(self, request: Request, language: str, result: Any, limit: int) -> Decoded:
        tokens = cast("list[int]", result.sequences_ids[0])
        text = self.tokens.decode(tokens).strip()
        # The score is the mean over the tokens written; the end, which counts too, is not in it.
        logprob = float(result.scores[0]) * len(tokens) / (len(tokens) + 1)
        flaws = checks.flaws(
            text,
            logprob=logprob,
            at_limit=len(tokens) >= limit,
            had_context=bool(self._context(request)),
            voiced_s=request.voiced_s,
        )
        return Decoded(
            text=text,
            tokens=tuple(tokens),
            language=language,
            logprob=logprob,
            no_speech=float(result.no_speech_prob),
            temperature=request.temperature,
            compute_ms=0.0,
            flaws=flaws,
        )


def _view(array: Floats) -> Any:
    """The array as CTranslate2 takes it: a view that keeps it alive."""
    storage = cast(Any, ctranslate2).StorageView
    return storage.from_array(np.ascontiguousarray(array))
