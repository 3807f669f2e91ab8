"""What a request to transcribe a file may ask, and the JSON shapes its results travel in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .frames import Data, MediaFile, Segment, Word
from .requestoptions import checked

Json = dict[str, Any]


class TranscribeOptions(BaseModel):
    """Options of one file, the `options` of its `MediaFile`; None leaves it to the pipeline file.

    `languages` are those among which the language is looked for, where `language` is None.
    `channels` "separate" transcribes each channel as its own speaker. `speakers` asks who spoke
    when; `min_speakers` and `max_speakers` bound the number, both alike where it is known.
    `known_speakers` maps names to recordings of 2 to 10 s.
    `vad_threshold` is the probability above which sound counts as speech, `vad_pad_ms` how much
    around speech is kept, `vad_silence_ms` the shortest pause at which chunks may be cut.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    language: str | None = None
    languages: tuple[str, ...] = Field(default=(), max_length=20)
    task: Literal["transcribe", "translate"] = "transcribe"
    prompt: str | None = Field(default=None, max_length=4000)
    hotwords: tuple[str, ...] = Field(default=(), max_length=200)
    temperature: float | None = Field(default=None, ge=0, le=1)
    beam_size: int | None = Field(default=None, ge=1, le=16)
    channels: Literal["mix", "separate"] = "mix"
    speakers: bool = False
    min_speakers: int = Field(default=1, ge=1, le=32)
    max_speakers: int = Field(default=8, ge=1, le=32)
    known_speakers: dict[str, str] = Field(default_factory=dict[str, str], max_length=16)
    vad_threshold: float = Field(default=0.5, ge=0.05, le=0.95)
    vad_pad_ms: int = Field(default=200, ge=0, le=2000)
    vad_silence_ms: int = Field(default=160, ge=60, le=5000)

    @model_validator(mode="after")
    def _bounds(self) -> TranscribeOptions:
        if self.min_speakers > self.max_speakers:
            raise ValueError(
                f"min_speakers {self.min_speakers} is above max_speakers {self.max_speakers}"
            )
        return self

    @property
    def diarize(self) -> bool:
        """Whether voices are to be told apart by their sound."""
        return (self.speakers or bool(self.known_speakers)) and self.channels == "mix"


def options_of(file: MediaFile) -> TranscribeOptions:
    """The options of a request, checked.

    Raises:
        BadInput: some are unknown or wrong; all of them are named.
    """
    return parse_options(file.options)


def parse_options(given: Mapping[str, Any]) -> TranscribeOptions:
    """Check options; see `options_of`."""
    return checked(TranscribeOptions, given)


def kind_of(frame: Data) -> str:
    """What a `Data` frame of this pipeline holds.

    "known_chunk" (in): a chunk that was transcribed before, not to be done again. "chunk" (out):
    one that was just done, worth keeping. "transcript" (out): the whole result, once, last.
    "turns" (out): who speaks when, where nothing was transcribed.
    """
    return str(frame.value.get("kind", "")) if isinstance(frame.value, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def word_json(word: Word) -> Json:
    """A word as it stands in results."""
    shape: Json = {
        "word": word.text,
        "start": word.start_s,
        "end": word.end_s,
        "probability": round(word.probability, 3),
    }
    return shape | ({"speaker": word.speaker} if word.speaker is not None else {})


def segment_json(segment: Segment) -> Json:
    """A segment as it stands in results."""
    return {
        "id": segment.index,
        "start": segment.start_s,
        "end": segment.end_s,
        "text": segment.text,
        "speaker": segment.speaker,
        "language": segment.language,
        "avg_logprob": segment.logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech,
        "temperature": segment.temperature,
        "tokens": list(segment.tokens),
        "marks": list(segment.marks),
        "words": [word_json(word) for word in segment.words],
    }


def segment_from(shape: Mapping[str, Any]) -> Segment:
    """The segment that `segment_json` wrote."""
    return Segment(
        text=shape["text"],
        start_s=shape["start"],
        end_s=shape["end"],
        index=shape["id"],
        speaker=shape["speaker"],
        language=shape["language"],
        logprob=shape["avg_logprob"],
        compression_ratio=shape["compression_ratio"],
        no_speech=shape["no_speech_prob"],
        temperature=shape["temperature"],
        tokens=tuple(shape["tokens"]),
        words=tuple(word_from(word) for word in shape.get("words", ())),
        marks=tuple(shape["marks"]),
    )


def word_from(shape: Mapping[str, Any]) -> Word:
    """The word that `word_json` wrote."""
    return Word(
        shape["word"], shape["start"], shape["end"], shape["probability"], shape.get("speaker")
    )


def full_text(segments: Sequence[Segment]) -> str:
    """The text of a whole transcript."""
    return joined_text(segment.text for segment in segments)


def joined_text(texts: Iterable[str]) -> str:
    """The text of a whole transcript, from those of its segments."""
    return " ".join(text.strip() for text in texts if text.strip())
