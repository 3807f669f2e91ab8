"""What the Whisper engine is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..audio import Floats
from ..mel import FRAMES_PER_S, RATE_HZ
from . import checks

WINDOW_S = 30
WINDOW_FRAMES = WINDOW_S * FRAMES_PER_S
_STEP_FRAMES = 500
_SHORTEST_FRAMES = 1000
_MOST_TOKENS = 224
CONTEXT_STEP = 16
MAX_CONTEXT = 224


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One stretch to transcribe: `samples` of shape (samples,) in -1..1, at 16 kHz, up to 30 s.

    `context` is text that came before, as tokens; it biases spelling and style (at most 224, and
    only a multiple of 16 from its end is used, so that requests share batches). `language` None
    detects it. `voiced_s`, where a VAD measured it, sharpens the checks. `max_tokens` None ties
    the length of the text to that of the audio. `silence_s` is the silence that is appended at
    least: too little makes the decoder loop; None fills up to 30 s, as in training, for ten
    times the encoder's work on short stretches. `temperature` above 0 samples. `tries`: as it is,
    at 30 s without context, and sampled, each only if the one before has `flaws`.
    """

    samples: Floats
    context: tuple[int, ...] = ()
    language: str | None = None
    task: Literal["transcribe", "translate"] = "transcribe"
    timestamps: bool = False
    beam_size: int = 1
    temperature: float = 0.0
    max_tokens: int | None = None
    silence_s: float | None = 3.0
    voiced_s: float | None = None
    tries: int = 3

    @property
    def duration_s(self) -> float:
        """Length of the audio in seconds."""
        return len(self.samples) / RATE_HZ

    @property
    def frames(self) -> int:
        """Mel frames that the encoder will see: from 1000 to 3000, in steps of 500."""
        if self.silence_s is None:
            return WINDOW_FRAMES
        wanted = int((self.duration_s + self.silence_s) * FRAMES_PER_S)
        steps = -(-max(wanted, _SHORTEST_FRAMES) // _STEP_FRAMES)
        return min(steps * _STEP_FRAMES, WINDOW_FRAMES)

    @property
    def token_limit(self) -> int:
        """Most tokens that the text may have: nobody says more than ten in a second."""
        spoken = int(self.duration_s * 10) + 12 if self.max_tokens is None else self.max_tokens
        return max(1, min(spoken, _MOST_TOKENS))


@dataclass(frozen=True, slots=True)
class Decoded:
    """What was heard. `tokens` hold the timestamps where they were asked for, `text` doesn't.

    `logprob` is the mean per token; `flaws` the checks that it fails after every retry;
    `compute_ms` the wall time of the batches that it was part of, `tries` their number.
    """

    text: str
    tokens: tuple[int, ...]
    language: str
    logprob: float
    no_speech: float
    temperature: float
    compute_ms: float
    tries: int = 1
    flaws: tuple[str, ...] = ()

    @property
    def is_silence(self) -> bool:
        """Whether the model itself takes it for silence; then another try makes no speech of it."""
        return self.no_speech > 0.6 and self.logprob < -1.0

    def is_spoken(self, *, voiced_s: float | None = None) -> bool:
        """Whether somebody said this; False for what Whisper invents over silence and noise."""
        return checks.is_spoken(
            self.text, logprob=self.logprob, no_speech=self.no_speech, voiced_s=voiced_s
        )


def full_length(request: Request) -> Request | None:
    """The request with silence up to 30 s and without context; None if it was like that."""
    if request.frames == WINDOW_FRAMES and not request.context:
        return None
    return replace(request, silence_s=None, context=())


def sampled(request: Request) -> Request | None:
    """The request at full length with a temperature; None if it has one."""
    if request.temperature:
        return None
    return replace(request, silence_s=None, context=(), temperature=0.4)


def better(old: Decoded, new: Decoded) -> Decoded:
    """The one with fewer flaws, then the likelier; it carries the cost of both."""
    best = min((new, old), key=lambda one: (len(one.flaws), -one.logprob))
    return replace(best, compute_ms=old.compute_ms + new.compute_ms, tries=old.tries + 1)
