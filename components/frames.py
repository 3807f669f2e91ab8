"""Frames: what travels along the edges of a graph.

Frozen values, safe to share between tasks. Times in `_ms` count milliseconds of audio on the
stream that the frame belongs to, never wall time. A frame travels inside a turn: turn 0 is the
session's standing stream (listening), each further turn is one generation of answers that an
interrupt can end (see `pipelines.session`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Tensor = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """Base of everything that travels along an edge."""


@dataclass(frozen=True, slots=True)
class Control(Frame):
    """A frame that every component passes on in its place in the stream unless it is meant for it.

    So a `Commit` sent behind audio reaches the turn detector behind that audio.
    """


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
class ImagePart:
    """A picture inside a message: encoded bytes (PNG, JPEG, WebP) and how closely to look."""

    data: bytes
    detail: Literal["auto", "low", "high"] = "auto"


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A tool call that a model asked for; `arguments` is JSON text as the model wrote it."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt. `call_id` ties a "tool" message to the call it answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    images: tuple[ImagePart, ...] = ()
    calls: tuple[CallRequest, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Prompt(Frame):
    """A request to a language model.

    `tool_choice` is "auto", "none", "required" or a tool's name. `spoken` says that the answer
    will be spoken: its `TextDelta`s carry it on to a TTS. `schema` asks for JSON that fits it.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    spoken: bool = True
    schema: Mapping[str, Any] | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class TextDelta(Frame):
    """The next piece of a text as it is made; pieces join without anything between them.

    `logprobs` holds (token, logprob) pairs where the prompt asked for them.
    """

    text: str
    spoken: bool = True
    logprobs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall(Frame):
    """A piece of a tool call: `name` and `call_id` on every piece, `arguments` a part of the JSON.

    `done` is True on the last piece of the call. `index` tells parallel calls apart.
    """

    call_id: str
    name: str
    arguments: str
    index: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens or units that a request used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    image_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completed(Frame):
    """A model has finished its answer. `first_ms` is the wall time to its first token."""

    reason: Literal["stop", "length", "tool_calls", "content_filter"] = "stop"
    usage: Usage = Usage()
    first_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Voice(Frame):
    """How to speak from here on. `name` None is the engine's default; `speed` in 0.25..4."""

    name: str | None = None
    speed: float = 1.0


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
class TextInput(Frame):
    """A whole text to work on (to embed, to classify), with the caller's index.

    `options` are those of the request (dimensions, truncate …), as the component lists them.
    """

    text: str
    index: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class Embedding(Frame):
    """A vector or a matrix of them: float array of shape (dim,) or (tokens, dim).

    `tokens` is what it cost; `meta` carries what the receiver needs to place it (grid sizes).
    """

    vector: Tensor
    index: int = 0
    tokens: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class Image(Frame):
    """A picture, uint8 of shape (height, width, 3). `preview` marks one that isn't final."""

    pixels: Tensor
    index: int = 0
    preview: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class VideoClip(Frame):
    """A clip, uint8 of shape (frames, height, width, 3)."""

    pixels: Tensor
    fps: float
    index: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Generate(Frame):
    """A request for pictures or a clip. None leaves a setting to the pipeline file.

    `width` and `height` in pixels; `frames` above 1 asks for a clip; `options` holds what only
    some models have (the names are in the component's options). `image` starts image-to-image.
    """

    prompt: str
    negative_prompt: str | None = None
    count: int = 1
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    fps: float | None = None
    steps: int | None = None
    guidance: float | None = None
    seed: int | None = None
    image: bytes | None = None
    strength: float | None = None
    previews: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Progress(Frame):
    """How far a request is: `done` of `total` units, with `note` for people."""

    done: float
    total: float
    note: str = ""


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


@dataclass(frozen=True, slots=True)
class Data(Frame):
    """A JSON-like value, for what has no frame of its own."""

    value: Any


@dataclass(frozen=True, slots=True)
class Fault(Frame):
    """A component failed and its turn or request ends here; the session goes on.

    `code` is the error's stable code (`components.errors`), `node` where it happened.
    """

    node: str
    code: str
    message: str
    utterance: int = 0


@dataclass(frozen=True, slots=True)
class End(Frame):
    """The turn is over: nothing more follows in it. `interrupted` when it was cut off."""

    interrupted: bool = False
