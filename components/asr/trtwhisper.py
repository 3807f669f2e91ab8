"""The Whisper engine on TensorRT-LLM: engines built by trtllm-build, run by its C++ runtime.

Written against TensorRT-LLM's Whisper example; it needs an NVIDIA GPU and wasn't run on one yet.
The runtime tells neither languages nor probabilities: the language is set, and the checks that go
by probability have nothing to judge by.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from tensorrt_llm import runtime  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from ..errors import BadInput, MissingRequirement
from ..mel import log_mel
from . import checks
from .engine import Engine
from .requests import WINDOW_FRAMES, Decoded, Request
from .tokens import Tokens


class TrtWhisper(Engine):
    """One pair of engines, `encoder/` and `decoder/`, and a tokenizer.json beside them.

    Raises:
        MissingRequirement: something of that isn't there.
    """

    def __init__(
        self, folder: Path, *, batch: int, beam_size: int, gpu_fraction: float, language: str | None
    ) -> None:
        needed = ("encoder/config.json", "decoder/config.json", "tokenizer.json")
        if lacks := [name for name in needed if not (folder / name).is_file()]:
            raise MissingRequirement(
                f"{folder} has no {', '.join(lacks)}; engines of trtllm-build and the model's"
                " tokenizer.json are expected",
                where="model",
            )
        encoder = _pretrained(folder / "encoder" / "config.json")
        decoder = _pretrained(folder / "decoder" / "config.json")
        self.mels = int(encoder["n_mels"])
        self.tokens = Tokens(
            folder / "tokenizer.json", multilingual=int(decoder["vocab_size"]) >= 51865
        )
        self._language = self.tokens.check_language(language)
        self._beam_size = beam_size
        self._runner: Any = cast(Any, runtime).ModelRunnerCpp.from_dir(
            engine_dir=str(folder),
            is_enc_dec=True,
            max_batch_size=batch,
            max_input_len=WINDOW_FRAMES,
            max_output_len=224,
            max_beam_width=beam_size,
            kv_cache_free_gpu_memory_fraction=gpu_fraction,
            cross_kv_cache_fraction=0.5,
        )

    def check(self, request: Request) -> None:
        """See `Engine.check`; a language must be known, and timestamps aren't possible."""
        super().check(request)
        if request.timestamps:
            raise BadInput("asr/trt has no timestamps; asr/ct2 has", where="asr")
        if self._language_of(request) is None:
            raise BadInput(
                "asr/trt doesn't detect languages: name one, or set options.language",
                where="asr",
                param="language",
            )

    def _language_of(self, request: Request) -> str | None:
        return self.tokens.check_language(request.language) or self._language

    def decode_once(self, requests: Sequence[Request]) -> list[Decoded]:
        """Decode in one batch; prompts of all lengths go together.

        Without temperature, since the decoder searches with beams: a second try is at full length.
        """
        began_s = time.perf_counter()
        for request in requests:
            self.check(request)
        if not requests:
            return []
        prompts = [self._prompt(request) for request in requests]
        mels = [
            torch.as_tensor(log_mel(one.samples, mels=self.mels, frames=WINDOW_FRAMES))
            for one in requests
        ]
        lengths = torch.tensor([WINDOW_FRAMES // 2] * len(mels), dtype=torch.int32)
        with torch.no_grad():
            out: Any = self._runner.generate(
                batch_input_ids=[torch.tensor(prompt, dtype=torch.int32) for prompt in prompts],
                encoder_input_features=[mel.T.contiguous().half().to(_device()) for mel in mels],
                encoder_output_lengths=lengths.to(_device()),
                max_new_tokens=max(request.token_limit for request in requests),
                end_id=self.tokens.end,
                pad_id=self.tokens.end,
                num_beams=self._beam_size,
                output_sequence_lengths=True,
                return_dict=True,
            )
        ids: Any = out["output_ids"].cpu()
        took_ms = (time.perf_counter() - began_s) * 1000
        return [
            self._decoded(request, prompt, [int(token) for token in ids[n][0]], took_ms)
            for n, (request, prompt) in enumerate(zip(requests, prompts, strict=True))
        ]

    def _prompt(self, request: Request) -> list[int]:
        language = self._language_of(request) or "en"
        return self.context(request) + self.tokens.header(language, request.task, timestamps=False)

    def _decoded(
        self, request: Request, prompt: list[int], ids: list[int], took_ms: float
    ) -> Decoded:
        # Releases differ in whether the prompt stands before the answer.
        written = ids[len(prompt) :] if ids[: len(prompt)] == prompt else ids
        written = (
            written[: written.index(self.tokens.end)] if self.tokens.end in written else written
        )
        tokens = tuple(written[: request.token_limit])
        text = self.tokens.decode(tokens).strip()
        return Decoded(
            text=text,
            tokens=tokens,
            language=self._language_of(request) or "en",
            logprob=0.0,
            no_speech=0.0,
            temperature=0.0,
            compute_ms=took_ms,
            flaws=checks.flaws(
                text,
                logprob=0.0,
                at_limit=len(written) >= request.token_limit,
                had_context=bool(self.context(request)),
                voiced_s=request.voiced_s,
            ),
        )


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _pretrained(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))["pretrained_config"]
