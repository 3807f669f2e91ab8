"""What a client asks of `/v1/audio/transcriptions` and `/translations`, checked as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...components.errors import BadInput
from ..upload import Form

Format = Literal["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]
_LISTS = {
    "languages",
    "keywords",
    "include",
    "timestamp_granularities",
    "known_speaker_names",
    "known_speaker_references",
}


class ServerVad(BaseModel):
    """`chunking_strategy` as an object."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["server_vad"]
    threshold: float = Field(default=0.5, ge=0.05, le=0.95)
    prefix_padding_ms: int = Field(default=300, ge=0, le=2000)
    silence_duration_ms: int = Field(default=200, ge=60, le=5000)


class AudioRequest(BaseModel):
    """The fields of the form; unknown and contradictory ones are refused.

    Beyond OpenAI's: `min_speakers`, `max_speakers`, `channels`, `beam_size`.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    language: str | None = None
    languages: list[str] = Field(default_factory=list)
    prompt: str | None = None
    keywords: list[str] = Field(default_factory=list)
    response_format: Format = "json"
    temperature: float | None = Field(default=None, ge=0, le=1)
    timestamp_granularities: list[Literal["word", "segment"]] = Field(default_factory=list)
    include: list[Literal["logprobs"]] = Field(default_factory=list)
    chunking_strategy: Literal["auto"] | ServerVad | None = None
    known_speaker_names: list[str] = Field(default_factory=list, max_length=16)
    known_speaker_references: list[str] = Field(default_factory=list, max_length=16)
    stream: bool = False
    min_speakers: int | None = Field(default=None, ge=1, le=32)
    max_speakers: int | None = Field(default=None, ge=1, le=32)
    channels: Literal["mix", "separate"] = "mix"
    beam_size: int | None = Field(default=None, ge=1, le=16)

    @model_validator(mode="after")
    def _together(self) -> AudioRequest:
        form, wrong = self.response_format, list[str]()
        if self.timestamp_granularities and form != "verbose_json":
            wrong.append(f"timestamp_granularities goes with verbose_json, not {form}")
        if self.include and form != "json":
            wrong.append(f"include logprobs goes with json, not {form}")
        if self.stream and form not in ("json", "text", "diarized_json"):
            wrong.append(f"stream goes with json, text and diarized_json, not {form}")
        if self.language and self.languages:
            wrong.append("language and languages exclude each other")
        if len(self.known_speaker_names) != len(self.known_speaker_references):
            wrong.append("known_speaker_names and known_speaker_references must be as many")
        asks_speakers = self.known_speaker_names or self.min_speakers or self.max_speakers
        if asks_speakers and form != "diarized_json":
            wrong.append(f"speakers go with diarized_json, not {form}")
        if asks_speakers and self.channels == "separate":
            wrong.append("with separate channels, the channels are the speakers")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def options(self, references: Mapping[str, str], task: str) -> dict[str, Any]:
        """The options of the `MediaFile`; `references` maps known speakers to files."""
        options: dict[str, Any] = {
            "task": task,
            "language": self.language,
            "languages": self.languages,
            "prompt": self.prompt,
            "hotwords": self.keywords,
            "temperature": self.temperature,
            "beam_size": self.beam_size,
            "channels": self.channels,
            "speakers": self.response_format == "diarized_json",
            "known_speakers": dict(references),
        }
        if self.min_speakers:
            options["min_speakers"] = self.min_speakers
        if self.max_speakers:
            options["max_speakers"] = self.max_speakers
        if isinstance(self.chunking_strategy, ServerVad):
            options["vad_threshold"] = self.chunking_strategy.threshold
            options["vad_pad_ms"] = self.chunking_strategy.prefix_padding_ms
            options["vad_silence_ms"] = self.chunking_strategy.silence_duration_ms
        return options


_TRANSLATED = ("model", "prompt", "response_format", "temperature", "beam_size")


def _fewer(schema: dict[str, Any]) -> None:
    known = schema["properties"]
    schema["properties"] = {name: known[name] for name in _TRANSLATED}
    known["response_format"]["enum"].remove("diarized_json")


class TranslationRequest(AudioRequest):
    """`/v1/audio/translations` takes less: no speakers, no streaming, the target is English."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_fewer)

    @model_validator(mode="after")
    def _less(self) -> TranslationRequest:
        extra = sorted(self.model_fields_set.difference(_TRANSLATED))
        if extra:
            raise ValueError(f"translations take {', '.join(sorted(_TRANSLATED))}; got {extra}")
        if self.response_format == "diarized_json":
            raise ValueError("translations can't be diarized_json")
        return self


def parse(form: Form, kind: type[AudioRequest] = AudioRequest) -> AudioRequest:
    """Check the fields of a form, lists as `x` or `x[]`, objects as `x[key]`.

    Raises:
        BadInput: with every fault.
    """
    values: dict[str, Any] = {}
    for raw, value in form.fields:
        name, _, key = raw.removesuffix("[]").partition("[")
        if key:
            inner = values.setdefault(name, {})
            if not isinstance(inner, dict):
                raise BadInput(f"{name} is given both as a value and in parts", param=name)
            inner[key.removesuffix("]")] = value
        elif name in _LISTS:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise BadInput(f"{name} is given twice", param=name)
        else:
            values[name] = value
    strategy = values.get("chunking_strategy")
    if isinstance(strategy, str) and strategy.lstrip().startswith("{"):
        values["chunking_strategy"] = _from_json(strategy)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _bad(error) from error


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"is no JSON: {error}", param="chunking_strategy") from error


def _bad(error: ValidationError) -> BadInput:
    known = ", ".join(AudioRequest.model_fields)
    said: list[str] = []
    for flaw in error.errors(include_url=False):
        place = ".".join(map(str, flaw["loc"]))
        hint = f" (known: {known})" if flaw["type"] == "extra_forbidden" else ""
        said.append(f"{place}: {flaw['msg']}{hint}" if place else flaw["msg"])
    first = error.errors(include_url=False)[0]["loc"]
    return BadInput("; ".join(said), param=str(first[0]) if first else None)
