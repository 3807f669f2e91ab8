"""`asr/trt`: Whisper on TensorRT-LLM, for many streams on one NVIDIA GPU."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Literal

import torch
from pydantic import Field

from ..base import Setup
from ..models import lacking, locate
from .trtwhisper import TrtWhisper
from .utterances import UtteranceAsr, UtteranceOptions

# The first release whose PyTorch backend has Whisper.
FIRST = [1, 3]


class TrtAsrOptions(UtteranceOptions):
    """How Whisper decodes; `dtype` None is the checkpoint's own. The engine takes no earlier text,
    so that `context_tokens` is 0 and a session's prompt biases nothing. With beams there is no
    second try by temperature."""

    batch: int = Field(16, ge=1, le=256)
    gpu_fraction: float = Field(0.9, gt=0, lt=1, description="of the GPU memory that is free")
    dtype: Literal["float16", "bfloat16", "float32"] | None = None
    context_tokens: int = Field(0, ge=0, le=0)


class TrtAsr(UtteranceAsr):
    """Utterances in, transcripts out, on TensorRT-LLM."""

    options = TrtAsrOptions

    def __init__(self, setup: Setup) -> None:
        self._settings = TrtAsrOptions.model_validate(dict(setup.options))
        super().__init__(setup, self._settings)
        self._built: TrtWhisper | None = None

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if not setup.model:
            return ["asr/trt needs `model:`, a folder or hub id of a Whisper model"]
        lacks = lacking(setup.model, "asr/trt", "config.json")
        release = version("tensorrt-llm")
        if [int(part) for part in release.split(".")[:2]] < FIRST:
            lacks.append(f"asr/trt needs TensorRT-LLM 1.3, which has Whisper; {release} is here")
        if not torch.cuda.is_available():
            lacks.append("asr/trt needs an NVIDIA GPU, none is here")
        return lacks

    def build(self) -> TrtWhisper:
        settings = self._settings
        self._built = TrtWhisper(
            locate(self.setup.model or ""),
            batch=settings.batch,
            beam_size=settings.beam_size,
            gpu_fraction=settings.gpu_fraction,
            dtype=settings.dtype,
        )
        return self._built

    async def close(self) -> None:
        await super().close()
        built, self._built = self._built, None
        if built is not None:
            await asyncio.to_thread(built.close)
