"""Frames of speech: audio, utterances and their transcripts, voices, and files of speech."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .base import Control, Frame, Samples, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Audio(Frame):
    """Mono PCM: `pcm` is int16 of shape (samples,); `start_ms` its place on the stream.

    `speech` is the probability in 0..1 that the chunk holds speech, once a VAD has looked at it.
    """

    pcm: Samples
    rate_hz: int
    start_ms: float = 0.0
    speech: float | None = None

    @property
    def duration_ms(self) -> float:
        """Length in milliseconds."""
        return len(self.pcm) * 1000 / self.rate_hz

    @property
    def end_ms(self) -> float:
        """Where the chunk ends on its stream."""
        return self.start_ms + self.duration_ms


@dataclass(frozen=True, slots=True)
class SpeechStarted(Frame):
    """An utterance begins at `start_ms` (pre-roll included); its audio follows.

    `utterance` counts from 1 in a session. `detected` is False when a client, not a detector,
    drew the bounds (manual commit): then nobody is told that speech started.
    """

    utterance: int
    start_ms: float
    detected: bool = True


@dataclass(frozen=True, slots=True)
class SpeechPaused(Frame):
    """The speaker is silent since `end_ms`, but the turn isn't over yet; work may start early."""

    utterance: int
    end_ms: float


@dataclass(frozen=True, slots=True)
class SpeechStopped(Frame):
    """The utterance is over at `end_ms`; exactly one final `Transcript` (or `Fault`) follows it.

    `dropped` utterances (cleared by the client, or no speech after all) get no transcript.
    `decision_ms` is the wall time the end-of-turn model took; 0 without one.
    """

    utterance: int
    end_ms: float
    detected: bool = True
    dropped: bool = False
    decision_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Commit(Control):
    """The client ends the utterance here, whatever the detector thinks."""


@dataclass(frozen=True, slots=True)
class Clear(Control):
    """The client throws away the audio that isn't yet committed."""


@dataclass(frozen=True, slots=True)
class TurnSettings(Control):
    """How turns end, from here on. `mode` "manual" leaves it to `Commit`.

    `threshold` in 0..1 of the VAD's probability; `eagerness` counts in mode "semantic" only.
    """

    mode: Literal["server", "semantic", "manual"] = "server"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"


@dataclass(frozen=True, slots=True)
class TranscriptionSettings(Control):
    """How speech is transcribed, from here on. `language` is ISO 639-1, None to detect.

    `prompt` biases spelling; `partials` asks for transcripts while the speaker still speaks.
    """

    language: str | None = None
    prompt: str | None = None
    partials: bool = True


@dataclass(frozen=True, slots=True)
class Word:
    """One word and when it is heard, in seconds from the start of its stream."""

    text: str
    start_s: float
    end_s: float
    probability: float = 1.0
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript(Frame):
    """What was said in `utterance`. While `final` is False, `text` only ever grows: a later partial
    starts with an earlier one's words, and so does the final text where the engine can keep it.

    `audio_ms` is the length of what was transcribed; `compute_ms` the time it took;
    `wait_ms` what it took after the utterance had ended. `logprob` is the mean per token.
    """

    text: str
    final: bool
    utterance: int = 0
    language: str | None = None
    audio_ms: float = 0.0
    compute_ms: float = 0.0
    wait_ms: float = 0.0
    logprob: float | None = None
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Voice(Frame):
    """How to speak from here on. `name` None is the engine's default; `speed` in 0.25..4.

    A name that the engine doesn't have is its default too, unless it is to be `exact`.
    """

    name: str | None = None
    speed: float = 1.0
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Spoken(Frame):
    """The audio from `start_ms` to `end_ms` of this turn says `text`; it precedes that audio.

    `text` is a slice of what the language model wrote (markup and all), so that the slices of a
    turn join to its text; a slice that isn't spoken (code, a table) has no length.
    `compute_ms` is what the synthesis of it took.
    """

    text: str
    start_ms: float
    end_ms: float
    compute_ms: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AudioTokens(Frame):
    """Codes of a neural codec, int32 of shape (codes,), as a speech model emits them."""

    codes: Tensor
    codec: str = "snac_24khz"


@dataclass(frozen=True, slots=True)
class MediaFile(Frame):
    """An audio or video file on a disk that every replica of the component can read.

    `options` are those of the request (language, prompt, speakers …), as the component lists them.
    """

    path: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Segment(Frame):
    """A piece of a file's transcript, times in seconds from the file's start.

    `marks` names checks that it failed after every retry ("repetition", "low_confidence", …).
    """

    text: str
    start_s: float
    end_s: float
    index: int = 0
    speaker: str | None = None
    language: str | None = None
    logprob: float | None = None
    compression_ratio: float | None = None
    no_speech: float | None = None
    temperature: float = 0.0
    tokens: tuple[int, ...] = ()
    words: tuple[Word, ...] = ()
    marks: tuple[str, ...] = ()
