"""`asr/trt`: Whisper on TensorRT-LLM, for many streams on one NVIDIA GPU."""

from __future__ import annotations

import torch
from pydantic import Field

from ..base import Setup
from ..models import lacking, locate
from .trtwhisper import TrtWhisper
from .utterances import UtteranceAsr, UtteranceOptions


class TrtAsrOptions(UtteranceOptions):
    """How Whisper decodes; `batch` and `beam_size` at most what the engines were built for.

    `language` is that of sessions that name none: the runtime detects none.
    """

    batch: int = Field(16, ge=1, le=256)
    gpu_fraction: float = Field(0.9, gt=0, lt=1, description="of the GPU memory that is free")
    language: str | None = None


class TrtAsr(UtteranceAsr):
    """Utterances in, transcripts out, on TensorRT-LLM."""

    options = TrtAsrOptions

    def __init__(self, setup: Setup) -> None:
        self._settings = TrtAsrOptions.model_validate(dict(setup.options))
        super().__init__(setup, self._settings)

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if not setup.model:
            return ["asr/trt needs `model:`, a folder of Whisper engines made by trtllm-build"]
        lacks = lacking(setup.model)
        if not torch.cuda.is_available():
            lacks.append("asr/trt needs an NVIDIA GPU, none is here")
        return lacks

    def build(self) -> TrtWhisper:
        settings = self._settings
        return TrtWhisper(
            locate(self.setup.model or ""),
            batch=settings.batch,
            beam_size=settings.beam_size,
            gpu_fraction=settings.gpu_fraction,
            language=settings.language,
        )
