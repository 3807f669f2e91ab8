"""`asr/hf`: Whisper on transformers, for GPUs and for fine-tuned checkpoints as they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..base import Setup
from ..models import lacking, locate
from .hfwhisper import HfWhisper
from .utterances import UtteranceAsr, UtteranceOptions


class HfAsrOptions(UtteranceOptions):
    """How Whisper decodes; `device` "auto" is a GPU where the replica has one. There are no beams
    here: `beam_size` is 1."""

    device: str = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    beam_size: int = Field(1, ge=1, le=1)


class HfAsr(UtteranceAsr):
    """Utterances in, transcripts out, on transformers."""

    options = HfAsrOptions

    def __init__(self, setup: Setup) -> None:
        self._settings = HfAsrOptions.model_validate(dict(setup.options))
        super().__init__(setup, self._settings)

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        if not setup.model:
            return ["asr/hf needs `model:`, a folder or hub id of a Whisper model"]
        return lacking(setup.model, "asr/hf", "config.json")

    def build(self) -> HfWhisper:
        device = self._settings.device
        if device == "auto":
            device = "cuda" if self.setup.resources.gpus > 0 else "cpu"
        return HfWhisper(
            locate(self.setup.model or ""),
            device=device,
            dtype=self._settings.dtype,
            threads=self.setup.resources.threads,
        )
