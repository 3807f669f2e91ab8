"""What Whisper hears in synthetic speech."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import soxr

from motet.components.frames import Samples
from motet.components.models import locate


@cache
def _whisper() -> Any:
    from faster_whisper import WhisperModel

    return WhisperModel(str(locate("whisper-tiny-en")), compute_type="int8", cpu_threads=1)


def hear(pcm: Samples, rate_hz: int) -> str:
    """Transcribe int16 audio of any rate; lower case, letters, digits, $ and full stops only."""
    audio = soxr.resample(pcm.astype(np.float32) / 32768, rate_hz, 16000)
    segments, _ = _whisper().transcribe(audio, beam_size=1, language="en")
    text = " ".join(segment.text for segment in segments).lower()
    return " ".join(re.sub(r"[^a-z0-9$. ]", " ", text).split())
