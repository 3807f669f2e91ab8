"""The session settings of the protocol's beta, whose names lay flat, in the names of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .settings import Settings, choice_wire, tokens_wire, tool_wire

_FLAT = {
    "input_audio_format": ("input", "format"),
    "input_audio_transcription": ("input", "transcription"),
    "turn_detection": ("input", "turn_detection"),
    "output_audio_format": ("output", "format"),
    "voice": ("output", "voice"),
    "speed": ("output", "speed"),
}
_RENAMED = {"modalities": "output_modalities", "max_response_output_tokens": "max_output_tokens"}
_FORMATS = {"audio/pcm": "pcm16", "audio/pcmu": "g711_ulaw", "audio/pcma": "g711_alaw"}


def from_beta(session: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, nested; what has today's names already stays."""
    nested: dict[str, Any] = {}
    audio: dict[str, dict[str, Any]] = {}
    for name, value in session.items():
        if name in _FLAT:
            side, field = _FLAT[name]
            audio.setdefault(side, {})[field] = value
        else:
            nested[_RENAMED.get(name, name)] = value
    return nested if not audio else {"audio": audio} | nested


def to_beta(settings: Settings, model: str) -> dict[str, Any]:
    """What is in force, as the beta's session objects have it."""
    heard = settings.transcription
    session: dict[str, Any] = {
        "input_audio_format": _FORMATS[settings.input_format.encoding],
        "input_audio_transcription": heard.wire() if heard else None,
        "turn_detection": settings.detection.wire() if settings.detection else None,
        "modalities": ["text"] if settings.modality == "text" else ["audio", "text"],
    }
    if settings.kind == "transcription":
        return session
    return session | {
        "model": model,
        "instructions": settings.instructions,
        "voice": settings.voice,
        "speed": settings.speed,
        "output_audio_format": _FORMATS[settings.output_format.encoding],
        "tools": [tool_wire(tool) for tool in settings.tools],
        "tool_choice": choice_wire(settings.tool_choice),
        "max_response_output_tokens": tokens_wire(settings.max_output_tokens),
    }
