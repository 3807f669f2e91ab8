"""The Whisper engine on transformers: batches of 30 s windows, decoded together, greedy or sampled.

It always looks at 30 s: transformers' encoder takes nothing shorter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, WhisperForConditionalGeneration
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from ..errors import BadInput, MissingRequirement
from ..loading import quiet_loading
from ..mel import log_mel
from . import checks
from .engine import Engine
from .requests import WINDOW_FRAMES, Decoded, Request
from .tokens import Tokens

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")


@dataclass(slots=True)
class _Row:
    """One answer as it is written."""

    tokens: list[int] = field(default_factory=list[int])
    logprob: float = 0.0
    over: bool = False


class HfWhisper(Engine):
    """One model in memory.

    Raises:
        MissingRequirement: the folder isn't a Whisper model of transformers, with its tokenizer.
    """

    def __init__(self, folder: Path, *, device: str, dtype: str, threads: int) -> None:
        if not (folder / "tokenizer.json").is_file():
            raise MissingRequirement(f"{folder} has no tokenizer.json", where="asr")
        kind: Any = WhisperForConditionalGeneration
        with quiet_loading():
            model = kind.from_pretrained(
                str(folder), local_files_only=True, dtype=DTYPES[dtype], use_safetensors=True
            )
        self._threads = threads
        self._device = torch.device(device)
        self._dtype = DTYPES[dtype]
        self._model: Any = model.eval().to(self._device)
        self.mels = int(model.config.num_mel_bins)
        said: Any = GenerationConfig.from_model_config(model.config)  # pyright: ignore
        if (folder / "generation_config.json").is_file():
            said = model.generation_config
        multilingual = getattr(said, "is_multilingual", None)
        self.tokens = Tokens(
            folder / "tokenizer.json",
            multilingual=model.config.vocab_size >= 51865 if multilingual is None else multilingual,
        )
        self._never = [int(n) for n in said.suppress_tokens or ()]
        self._not_first = [int(n) for n in said.begin_suppress_tokens or ()]
        self._no_speech = self.tokens.first_of(NO_SPEECH)
        # What follows the last text token is special or a timestamp, but for the end.
        self._specials = list(range(self.tokens.end + 1, model.config.vocab_size))

    def check(self, request: Request) -> None:
        """See `Engine.check`; neither timestamps nor beams are possible here."""
        super().check(request)
        if request.timestamps or request.beam_size > 1:
            raise BadInput("asr/hf has neither timestamps nor beams; asr/ct2 has", where="asr")

    @torch.inference_mode()
    def decode_once(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode without retries: all are encoded together, those of equal prompts written so."""
        began_s = time.perf_counter()
        torch.set_num_threads(self._threads)
        for request in requests:
            self.check(request)
        if not requests:
            return []
        encoded = self._encode(requests)
        languages = self._languages(requests, encoded)
        groups: dict[tuple[int, float], list[int]] = {}
        for n, request in enumerate(requests):
            key = (len(self.context(request)), request.temperature)
            groups.setdefault(key, []).append(n)
        found: dict[int, tuple[_Row, float]] = {}
        for members in groups.values():
            rows = self._write(
                [requests[n] for n in members], encoded[members], [languages[n] for n in members]
            )
            found.update(zip(members, rows, strict=True))
        took_ms = (time.perf_counter() - began_s) * 1000
        return [
            self._decoded(request, languages[n], *found[n], took_ms)
            for n, request in enumerate(requests)
        ]

    def _encode(self, requests: Sequence[Request]) -> torch.Tensor:
        """(requests, 1500, width)."""
        mels = [
            torch.as_tensor(log_mel(one.samples, mels=self.mels, frames=WINDOW_FRAMES))
            for one in requests
        ]
        features = torch.stack(mels).to(self._device, self._dtype)
        return self._model.model.encoder(features).last_hidden_state

    def _languages(self, requests: Sequence[Request], encoded: torch.Tensor) -> list[str]:
        known = [self.tokens.check_language(request.language) for request in requests]
        unknown = [n for n, language in enumerate(known) if language is None]
        if unknown:
            start = torch.full((len(unknown), 1), self.tokens.start, device=self._device)
            logits, _ = self._step(start, encoded[unknown], None)
            codes = list(self.tokens.languages)
            places = [self.tokens.languages[code] for code in codes]
            best = logits[:, -1, places].argmax(-1)
            for n, choice in zip(unknown, best, strict=True):
                known[n] = codes[int(choice)]
        return [language or "en" for language in known]

    def _step(
        self, ids: torch.Tensor, encoded: torch.Tensor, cache: Any
    ) -> tuple[torch.Tensor, Any]:
        cache = cache or EncoderDecoderCache(DynamicCache(), DynamicCache())
        out = self._model(
            encoder_outputs=(encoded,), decoder_input_ids=ids, cache=cache, use_cache=True
        )
        return out.logits.float(), cache

    def _write(
        self, requests: list[Request], encoded: torch.Tensor, languages: list[str]
    ) -> list[tuple[_Row, float]]:
        """The answers of requests whose prompts are equally long, and their silence."""
        prompts = [
            self.context(one) + self.tokens.header(language, one.task, timestamps=False)
            for one, language in zip(requests, languages, strict=True)
        ]
        rows = [_Row() for _ in requests]
        logits, cache = self._step(torch.tensor(prompts, device=self._device), encoded, None)
        silence = self._silence(logits[:, len(self.context(requests[0]))])
        first = True
        while not all(row.over for row in rows):
            chosen = self._choose(logits[:, -1], requests[0].temperature, first=first)
            first = False
            for row, request, (token, logprob) in zip(rows, requests, chosen, strict=True):
                if row.over:
                    continue
                row.logprob += logprob
                row.over = token == self.tokens.end or len(row.tokens) + 1 >= request.token_limit
                if token != self.tokens.end:
                    row.tokens.append(token)
            ids = torch.tensor([[token] for token, _ in chosen], device=self._device)
            if not all(row.over for row in rows):
                logits, cache = self._step(ids, encoded, cache)
        return list(zip(rows, silence, strict=True))

    def _silence(self, logits: torch.Tensor) -> list[float]:
        """How likely each is no speech, by the logits behind the start token."""
        if self._no_speech is None:
            return [0.0] * len(logits)
        return [float(share) for share in logits.softmax(-1)[:, self._no_speech]]

    def _choose(
        self, logits: torch.Tensor, temperature: float, *, first: bool
    ) -> list[tuple[int, float]]:
        """A token and its log probability for each row of logits (rows, vocab)."""
        logits = logits.clone()
        logits[:, self._specials] = float("-inf")
        logits[:, self._never] = float("-inf")
        if first:
            logits[:, self._not_first] = float("-inf")
        scores = logits.log_softmax(-1)
        if temperature:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
        else:
            chosen = scores.argmax(-1)
        return [(int(token), float(scores[n, token])) for n, token in enumerate(chosen)]

    def _decoded(
        self, request: Request, language: str, row: _Row, silence: float, took_ms: float
    ) -> Decoded:
        text = self.tokens.decode(row.tokens).strip()
        at_limit = len(row.tokens) >= request.token_limit
        logprob = row.logprob / (len(row.tokens) + (not at_limit))
        return Decoded(
            text=text,
            tokens=tuple(row.tokens),
            language=language,
            logprob=logprob,
            no_speech=silence,
            temperature=request.temperature,
            compute_ms=took_ms,
            flaws=checks.flaws(
                text,
                logprob=logprob,
                at_limit=at_limit,
                had_context=bool(self.context(request)),
                voiced_s=request.voiced_s,
            ),
        )
