"""`asr/ct2`: Whisper on CTranslate2, one model for all sessions, with partial transcripts."""

from __future__ import annotations

from typing import Literal

from ..base import Setup
from ..models import lacking, locate
from .utterances import UtteranceAsr, UtteranceOptions
from .whisper import FILES, Whisper

_DEFAULT_MODEL = "whisper-tiny-en"


class Ct2Options(UtteranceOptions):
    """How Whisper decodes.

    `device` "auto" is a GPU where the replica has one. `beam_size` above 1 is slower and a
    little better.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    compute_type: Literal[
        "default", "int8", "int8_float32", "int8_float16", "float16", "bfloat16", "float32"
    ] = "int8"


class Ct2Asr(UtteranceAsr):
    """Utterances in, transcripts out, on CTranslate2."""

    options = Ct2Options

    def __init__(self, setup: Setup) -> None:
        self._settings = Ct2Options.model_validate(dict(setup.options))
        super().__init__(setup, self._settings)

    @classmethod
    def requirements(cls, setup: Setup) -> list[str]:
        return lacking(setup.model or _DEFAULT_MODEL, "asr/ct2", *FILES)

    def build(self) -> Whisper:
        device = self._settings.device
        if device == "auto":
            device = "cuda" if self.setup.resources.gpus > 0 else "cpu"
        return Whisper(
            locate(self.setup.model or _DEFAULT_MODEL),
            device=device,
            compute_type=self._settings.compute_type,
            threads=self.setup.resources.threads,
        )
