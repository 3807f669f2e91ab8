"""The Whisper engine on TensorRT-LLM's LLM API: a checkpoint of transformers, batched in flight.

Written against TensorRT-LLM 1.3, whose PyTorch backend has Whisper (earlier releases built engines
for a runtime that is gone); it needs an NVIDIA GPU and wasn't run on one yet. The API takes no text
before the transcript, so that neither a prompt nor earlier speech biases what is written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import tensorrt_llm  # pyright: ignore[reportMissingImports]
from tensorrt_llm import llmapi  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from ..errors import BadInput, MissingRequirement
from ..mel import RATE_HZ
from . import checks
from .engine import Engine
from .requests import Decoded, Request
from .tokens import Tokens

NEEDED = ("config.json", "tokenizer.json", "preprocessor_config.json")
# Places that the encoder makes of 30 s.
PLACES = 1500


class TrtWhisper(Engine):
    """One model on one GPU.

    Raises:
        MissingRequirement: the folder isn't a Whisper checkpoint of transformers.
    """

    def __init__(
        self,
        folder: Path,
        *,
        batch: int,
        beam_size: int,
        gpu_fraction: float,
        dtype: str | None,
    ) -> None:
        if lacks := [name for name in NEEDED if not (folder / name).is_file()]:
            raise MissingRequirement(
                f"{folder} has no {', '.join(lacks)}; a Whisper checkpoint of transformers is"
                " expected",
                where="model",
            )
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tokens = Tokens(
            folder / "tokenizer.json", multilingual=int(config["vocab_size"]) >= 51865
        )
        self._beam_size = beam_size
        api = cast(Any, llmapi)
        # The checkpoint's own type wins over the argument `dtype`.
        types = {"dtype": dtype, "model_kwargs": {"torch_dtype": dtype}} if dtype else {}
        self._llm: Any = cast(Any, tensorrt_llm).LLM(
            model=str(folder),
            attn_backend="TRTLLM",
            disable_overlap_scheduler=True,
            enable_chunked_prefill=False,
            kv_cache_config=api.KvCacheConfig(
                enable_block_reuse=False,
                free_gpu_memory_fraction=gpu_fraction,
                cross_kv_cache_fraction=0.5,
            ),
            scheduler_config=api.SchedulerConfig(use_python_scheduler=True),
            max_batch_size=batch,
            max_beam_width=beam_size,
            max_input_len=PLACES,
            max_num_tokens=PLACES * batch,
            **types,
        )

    def check(self, request: Request) -> None:
        """See `Engine.check`; timestamps aren't possible."""
        super().check(request)
        if request.timestamps:
            raise BadInput("asr/trt has no timestamps; asr/ct2 has", where="asr")

    def context(self, request: Request) -> list[int]:
        """None: the API's decoder prompt begins with the start of the transcript."""
        del request
        return []

    def decode_once(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode in one call; the engine batches as it likes."""
        began_s = time.perf_counter()
        for request in requests:
            self.check(request)
        if not requests:
            return []
        languages = self._languages(requests)
        prompts = [
            asked(request, self._header(language, request.task))
            for request, language in zip(requests, languages, strict=True)
        ]
        answers: Any = self._llm.generate(prompts, [self.sampling(one) for one in requests])
        took_ms = (time.perf_counter() - began_s) * 1000
        return [
            self._decoded(request, language, answer.outputs[0], took_ms)
            for request, language, answer in zip(requests, languages, answers, strict=True)
        ]

    def sampling(self, request: Request) -> Any:
        """How a request is decoded: by beams, greedily, or with its temperature."""
        beams = self._beam_size > 1
        arguments: dict[str, Any] = {
            "max_tokens": request.token_limit,
            "temperature": 0.0 if beams else request.temperature,
            "logprobs": 1,
            "detokenize": False,
        }
        if beams:
            arguments |= {"use_beam_search": True, "best_of": self._beam_size, "n": 1}
        return cast(Any, llmapi).SamplingParams(**arguments)

    def _languages(self, requests: Sequence[Request]) -> list[str]:
        """Those that are named, and for the others the token that the model would write first."""
        known = [self.tokens.check_language(request.language) for request in requests]
        unknown = [n for n, language in enumerate(known) if language is None]
        if unknown:
            codes = {token: code for code, token in self.tokens.languages.items()}
            one: dict[str, Any] = {"max_tokens": 1, "temperature": 0.0, "detokenize": False}
            if self._beam_size > 1:
                one |= {"use_beam_search": True, "best_of": self._beam_size, "n": 1}
            answers: Any = self._llm.generate(
                [asked(requests[n], "<|startoftranscript|>") for n in unknown],
                [cast(Any, llmapi).SamplingParams(**one) for _ in unknown],
            )
            for n, answer in zip(unknown, answers, strict=True):
                known[n] = codes.get(int(answer.outputs[0].token_ids[0]))
        return [language or "en" for language in known]

    def _header(self, language: str, task: str) -> str:
        if not self.tokens.multilingual:
            return "<|startoftranscript|><|notimestamps|>"
        return f"<|startoftranscript|><|{language}|><|{task}|><|notimestamps|>"

    def _decoded(self, request: Request, language: str, output: Any, took_ms: float) -> Decoded:
        written = [int(token) for token in output.token_ids]
        ended = self.tokens.end in written
        tokens = tuple(written[: written.index(self.tokens.end)] if ended else written)
        text = self.tokens.decode(tokens).strip()
        logprob = mean_logprob(written[: len(tokens) + ended], output.logprobs)
        return Decoded(
            text=text,
            tokens=tokens,
            language=language,
            logprob=logprob,
            no_speech=0.0,
            temperature=0.0 if self._beam_size > 1 else request.temperature,
            compute_ms=took_ms,
            flaws=checks.flaws(
                text,
                logprob=logprob,
                at_limit=not ended and len(tokens) >= request.token_limit,
                had_context=False,
                voiced_s=request.voiced_s,
            ),
        )

    def close(self) -> None:
        """Free the GPU."""
        self._llm.shutdown()


def asked(request: Request, header: str) -> dict[str, Any]:
    """A stretch and the beginning of its transcript as the API takes them."""
    return {"prompt": header, "multi_modal_data": {"audio": [(request.samples, RATE_HZ)]}}


def mean_logprob(
    tokens: Sequence[int], scores: Sequence[Mapping[int, Any] | float] | None
) -> float:
    """The mean of the tokens' log probabilities. For each the API has a mapping of tokens to
    values, or the chosen one's alone."""
    found: list[float] = []
    for token, places in zip(tokens, scores or (), strict=False):
        if not isinstance(places, Mapping):
            found.append(float(places))
        elif token in places:
            found.append(float(places[token].logprob))
    return sum(found) / len(found) if found else 0.0
