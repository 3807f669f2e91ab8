"""How a pipeline file tunes the transcription of whole files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..base import Options
from ..mel import FRAMES_PER_S
from ..transcription import TranscribeOptions
from .file_checks import CheckRules
from .file_chunks import CutRules


class FileOptions(Options):
    """How files are transcribed unless a request says otherwise.

    `chunk_s` is the longest chunk, `gap_s` the longest pause inside one. Up to `batch` chunks share
    the decoder, of up to `batch_s` together, padding counted: memory goes with that. `first_batch`
    is smaller, for an early first text. `longest_h` refuses longer files.
    The four limits are those of the checks.
    """

    device: Literal["cpu", "cuda", "auto"] = "cpu"
    compute_type: str = "int8"
    language: str | None = None
    beam_size: int = Field(default=5, ge=1, le=16)
    temperature: float = Field(default=0.0, ge=0, le=1)
    chunk_s: float = Field(default=15.0, ge=5, le=28)
    gap_s: float = Field(default=1.0, ge=0.2, le=5)
    batch: int = Field(default=8, ge=1, le=64)
    batch_s: float = Field(default=102.0, ge=30, le=1920)
    first_batch: int = Field(default=1, ge=1, le=64)
    longest_h: float = Field(default=48.0, gt=0)
    compression_ratio: float = 2.4
    logprob: float = -1.0
    slowest_wpm: float = 70.0
    fastest_wpm: float = 400.0
    vad: str = "silero-vad"

    def cutting(self, asked: TranscribeOptions) -> CutRules:
        """How the chunks of a request are cut."""
        return CutRules(
            longest_s=self.chunk_s,
            gap_s=self.gap_s,
            pad_s=asked.vad_pad_ms / 1000,
            threshold=asked.vad_threshold,
            pause_s=asked.vad_silence_ms / 1000,
        )

    @property
    def batch_frames(self) -> int:
        """`batch_s` in mel frames."""
        return int(self.batch_s * FRAMES_PER_S)

    @property
    def checking(self) -> CheckRules:
        """How their texts are judged."""
        return CheckRules(
            compression_ratio=self.compression_ratio,
            logprob=self.logprob,
            slowest_wpm=self.slowest_wpm,
            fastest_wpm=self.fastest_wpm,
        )
