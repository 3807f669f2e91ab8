"""How a client's wishes change the settings: only the fields that are present."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ...components.frames import Tool
from ...pipelines.history import Budget
from ..abilities import DEFAULT, OPENAI_VOICES
from .codec import AudioFormat
from .events import (
    AudioPatch,
    ChoiceField,
    DetectionPatch,
    FormatField,
    FormatPatch,
    InputPatch,
    ModalitiesField,
    NamedChoice,
    OutputPatch,
    ResponsePatch,
    RetentionPatch,
    SessionPatch,
    TokensField,
    ToolSpec,
    TranscriptionPatch,
    VoiceId,
)
from .faults import ClientError
from .settings import Detection, Modality, Offer, Settings, Transcription


def merged(settings: Settings, patch: SessionPatch, offer: Offer) -> Settings:
    """The settings after `session.update`.

    Raises:
        ClientError: a value that can't be, such as a tool choice that names no tool.
    """
    changed = _shared(settings, patch, offer, "session")
    if patch.type is not None:
        changed = replace(changed, kind=patch.type)
    if patch.include is not None:
        changed = replace(changed, include=tuple(patch.include))
    if patch.truncation is not None:
        changed = _truncation(changed, patch, offer)
    if patch.audio is not None and patch.audio.input is not None:
        changed = _input(changed, patch.audio.input, offer)
    return changed


def overridden(settings: Settings, patch: ResponsePatch, offer: Offer) -> Settings:
    """The settings of one response, as its `response.create` wants them.

    Raises:
        ClientError: a value that can't be.
    """
    return _shared(settings, patch, offer, "response")


def _shared(
    settings: Settings, patch: SessionPatch | ResponsePatch, offer: Offer, where: str
) -> Settings:
    changes: dict[str, Any] = {}
    if patch.instructions is not None:
        changes["instructions"] = patch.instructions
    if patch.tools is not None:
        changes["tools"] = tuple(_tool(tool) for tool in patch.tools)
    if patch.tool_choice is not None:
        changes["tool_choice"] = _choice(patch.tool_choice)
    if patch.parallel_tool_calls is not None:
        changes["parallel_tool_calls"] = patch.parallel_tool_calls
    if patch.max_output_tokens is not None:
        changes["max_output_tokens"] = _tokens(patch.max_output_tokens)
    if patch.output_modalities is not None:
        changes["modality"] = _modality(patch.output_modalities)
    changed = _output(replace(settings, **changes), patch.audio, offer, f"{where}.audio.output")
    return _checked_choice(changed, patch, where)


def _checked_choice(
    settings: Settings, patch: SessionPatch | ResponsePatch, where: str
) -> Settings:
    """A choice left over from earlier tools falls back; one that is asked for must exist."""
    choice = settings.tool_choice
    if choice in ("auto", "none", "required") or choice in {t.name for t in settings.tools}:
        return settings
    if patch.tool_choice is None:
        return replace(settings, tool_choice="auto")
    known = ", ".join(sorted(tool.name for tool in settings.tools)) or "none"
    raise ClientError(
        "invalid_value", f"No tool is named {choice!r}; known: {known}.", f"{where}.tool_choice"
    )


def _tool(tool: ToolSpec) -> Tool:
    return Tool(tool.name, tool.description or "", tool.parameters or {})


def _choice(choice: ChoiceField) -> str:
    return choice.name if isinstance(choice, NamedChoice) else (choice or "auto")


def _tokens(tokens: TokensField) -> int | None:
    return tokens if isinstance(tokens, int) else None


def _modality(wanted: ModalitiesField) -> Modality:
    """Audio brings its transcript along, so asking for both asks for audio."""
    return "audio" if "audio" in (wanted or ()) else "text"


def _format(wanted: FormatField, current: AudioFormat, param: str) -> AudioFormat:
    if wanted is None:
        return current
    if isinstance(wanted, FormatPatch):
        return AudioFormat.of(wanted.type, wanted.rate, param=param)
    return AudioFormat.of(wanted, param=param)


def _output(settings: Settings, patch: AudioPatch | None, offer: Offer, where: str) -> Settings:
    wanted = (patch.output if patch is not None else None) or OutputPatch()
    return replace(
        settings,
        output_format=_format(wanted.format, settings.output_format, f"{where}.format"),
        voice=_voice(wanted.voice, settings.voice, offer, f"{where}.voice"),
        speed=settings.speed if wanted.speed is None else wanted.speed,
    )


def _voice(wanted: str | VoiceId | None, current: str, offer: Offer, param: str) -> str:
    """OpenAI's names, which clients send without being asked, stand for the engine's own voice."""
    name = wanted.id if isinstance(wanted, VoiceId) else wanted
    if name is None:
        return current
    if offer.voices and name not in {DEFAULT, *OPENAI_VOICES, *offer.voices}:
        possible = ", ".join(offer.voices)
        raise ClientError("invalid_value", f"No voice {name!r:.60}; possible: {possible}.", param)
    return name


def _input(settings: Settings, patch: InputPatch, offer: Offer) -> Settings:
    present = patch.model_fields_set
    changes: dict[str, Any] = {
        "input_format": _format(patch.format, settings.input_format, "session.audio.input.format")
    }
    if "transcription" in present:
        changes["transcription"] = _transcription(
            settings.transcription, patch.transcription, offer
        )
    if "turn_detection" in present:
        changes["detection"] = _detection(settings.detection, patch.turn_detection, offer)
    return replace(settings, **changes)


def _transcription(
    current: Transcription | None, patch: TranscriptionPatch | None, offer: Offer
) -> Transcription | None:
    """Whatever model is asked for, the pipeline's own transcribes."""
    if patch is None:
        return None
    base = current or Transcription(offer.transcriber)
    changes = patch.model_dump(include=patch.model_fields_set & {"language", "prompt"})
    return replace(base, **{name: value or None for name, value in changes.items()})


def _detection(
    current: Detection | None, patch: DetectionPatch | None, offer: Offer
) -> Detection | None:
    """Fields of the same kind of detection are kept; another kind starts from its defaults."""
    if patch is None:
        return None
    mode = patch.type or (current.mode if current else "server_vad")
    if current is None or current.mode != mode:
        default_ms = offer.conversation.silence_duration_ms
        current = Detection(mode=mode, silence_duration_ms=default_ms)
    wanted = patch.model_dump(exclude={"type"}, exclude_unset=True)
    kept = {k: v for k, v in wanted.items() if v is not None or k == "idle_timeout_ms"}
    return replace(current, **kept)


def _truncation(settings: Settings, patch: SessionPatch, offer: Offer) -> Settings:
    most = offer.conversation.max_history_tokens
    wanted = patch.truncation
    if isinstance(wanted, RetentionPatch):
        limits = wanted.token_limits
        limit = limits.post_instructions if limits is not None else None
        budget = Budget(most if limit is None else min(most, limit), keep=wanted.retention_ratio)
        return replace(
            settings, budget=budget, truncation=cast(Any, wanted.model_dump(exclude_none=True))
        )
    return replace(settings, budget=Budget(most, cut=wanted != "disabled"), truncation=wanted)
