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
from ..errors import MissingRequirement
from ..mel import log_mel
from . import checks
from .engine import Engine
from .isa import prefer_avx512
from .requests import Decoded, Request
from .tokens import Tokens

Device = Literal["cpu", "cuda", "auto"]
FILES = ("model.bin", "tokenizer.json")


class Whisper(Engine):
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
        for name in FILES:
            if not (folder / name).is_file():
                raise MissingRequirement(
                    f"{folder} has no {name}; a CTranslate2 Whisper model is expected", where="asr"
                )
        prefer_avx512()
        self.model: Any = cast(Any, ctranslate2).models.Whisper(
            str(folder),
            device=device,
            compute_type=compute_type,
            intra_threads=threads,
            inter_threads=workers,
        )
        self.tokens = Tokens(folder / "tokenizer.json", multilingual=self.model.is_multilingual)
        self.mels = int(self.model.n_mels)
        self._on_cpu = self.model.device == "cpu"

    def decode_once(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode without retries: the encoder one by one (on a CPU), the decoder in batches."""
        began_s = time.perf_counter()
        groups: dict[object, list[int]] = {}
        for n, request in enumerate(requests):
            self.check(request)
            key = (request.frames, len(self.context(request)), request.beam_size)
            key += (request.temperature, request.timestamps)
            groups.setdefault(key, []).append(n)
        found: dict[int, Decoded] = {}
        for members in groups.values():
            group = [requests[n] for n in members]
            encoded = self.encode(group)
            answers = self._generate(group, encoded, self._languages(group, encoded))
            found.update(zip(members, answers, strict=True))
        took_ms = (time.perf_counter() - began_s) * 1000
        return [replace(found[n], compute_ms=took_ms) for n in range(len(requests))]

    def encode(self, requests: Sequence[Request]) -> Any:
        """Encoder output of requests of equal `frames`, as a StorageView of shape
        (requests, frames / 2, width).

        It stays where the model is. On a CPU they go one by one: a batch is slower there, as its
        attention no longer fits the cache.
        """
        mels = [log_mel(one.samples, mels=self.mels, frames=one.frames) for one in requests]
        if self._on_cpu:
            done = [np.asarray(self.model.encode(view(mel[None]))) for mel in mels]
            return view(np.concatenate(done))
        return self.model.encode(view(np.stack(mels)))

    def _languages(self, requests: Sequence[Request], encoded: Any) -> list[str]:
        known = [self.tokens.check_language(request.language) for request in requests]
        if None not in known:
            return [language for language in known if language]
        found = self.detect_languages(encoded)
        return [language or best[0][0] for language, best in zip(known, found, strict=True)]

    def detect_languages(self, encoded: Any) -> list[list[tuple[str, float]]]:
        """Languages and their probabilities, likeliest first, per item of an encoder output."""
        found = self.model.detect_language(encoded)
        return [[(token.strip("<|>"), float(p)) for token, p in one] for one in found]

    def _generate(
        self, requests: list[Request], encoded: Any, languages: list[str]
    ) -> list[Decoded]:
        """Decode a group that shares everything but audio, words of context and language."""
        first = requests[0]
        prompts = [
            self.context(one) + self.tokens.header(language, one.task, timestamps=one.timestamps)
            for one, language in zip(requests, languages, strict=True)
        ]
        limit = max(one.token_limit for one in requests)
        results = self.model.generate(
            encoded,
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
            had_context=bool(self.context(request)),
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


def view(array: Floats) -> Any:
    """The array as CTranslate2 takes it: a view that keeps it alive."""
    storage = cast(Any, ctranslate2).StorageView
    return storage.from_array(np.ascontiguousarray(array))
