"""The settings of a realtime session: what is in force, and how it looks on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...components.frames import Tool, TranscriptionSettings, TurnSettings
from ...pipelines.history import Budget
from ...pipelines.spec import ConversationSpec
from ..abilities import DEFAULT
from .codec import AudioFormat

Modality = Literal["text", "audio"]
Kind = Literal["realtime", "transcription"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a pipeline has to offer: names that stand for clients' wishes, and its bounds.

    `voices` are those of its engine, none where they aren't known.
    """

    model: str = "motet"
    transcriber: str = "whisper"
    conversation: ConversationSpec = field(default_factory=ConversationSpec)
    voices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detection:
    """How the server finds the ends of turns by itself."""

    mode: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    idle_timeout_ms: int | None = None
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True

    def wire(self) -> dict[str, Any]:
        """As it stands in a session."""
        both = {
            "create_response": self.create_response,
            "interrupt_response": self.interrupt_response,
        }
        if self.mode == "semantic_vad":
            return {"type": self.mode, "eagerness": self.eagerness, **both}
        return {
            "type": self.mode,
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix_padding_ms,
            "silence_duration_ms": self.silence_duration_ms,
            "idle_timeout_ms": self.idle_timeout_ms,
            **both,
        }


@dataclass(frozen=True, slots=True)
class Transcription:
    """How transcripts of the input are made and sent."""

    model: str
    language: str | None = None
    prompt: str | None = None

    def wire(self) -> dict[str, Any]:
        """As it stands in a session."""
        return {"model": self.model, "language": self.language, "prompt": self.prompt}


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `session.update` can change, at one moment. Responses take a snapshot."""

    kind: Kind = "realtime"
    instructions: str = ""
    modality: Modality = "audio"
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = None
    budget: Budget = field(default_factory=Budget)
    truncation: Any = "auto"
    include: tuple[str, ...] = ()
    input_format: AudioFormat = field(default_factory=AudioFormat)
    transcription: Transcription | None = None
    detection: Detection | None = field(default_factory=Detection)
    output_format: AudioFormat = field(default_factory=AudioFormat)
    voice: str = DEFAULT
    speed: float = 1.0

    @classmethod
    def initial(cls, offer: Offer, kind: Kind = "realtime") -> Settings:
        """What a session starts with, as the pipeline file has it."""
        spec = offer.conversation
        return cls(
            kind=kind,
            instructions=spec.instructions,
            budget=Budget(spec.max_history_tokens),
            transcription=Transcription(offer.transcriber),
            detection=Detection(
                mode=spec.turn_detection, silence_duration_ms=spec.silence_duration_ms
            ),
            voice=spec.voice or DEFAULT,
        )

    def turn_settings(self) -> TurnSettings:
        """For the pipeline: how turns end."""
        found = self.detection
        if found is None:
            return TurnSettings(mode="manual")
        return TurnSettings(
            mode="semantic" if found.mode == "semantic_vad" else "server",
            threshold=found.threshold,
            prefix_padding_ms=found.prefix_padding_ms,
            silence_duration_ms=found.silence_duration_ms,
            eagerness=found.eagerness,
        )

    def transcription_settings(self) -> TranscriptionSettings:
        """For the pipeline: how speech is transcribed; no partial transcripts that nobody gets."""
        wanted = self.transcription
        if wanted is None:
            return TranscriptionSettings(partials=False)
        language = (wanted.language or "").partition("-")[0].lower() or None
        return TranscriptionSettings(language=language, prompt=wanted.prompt)

    def wire(self, offer: Offer, session_id: str, expires_at: int) -> dict[str, Any]:
        """The `session` object: what is in force, whole."""
        heard = {
            "format": self.input_format.wire(),
            "transcription": self.transcription.wire() if self.transcription else None,
            "noise_reduction": None,
            "turn_detection": self.detection.wire() if self.detection else None,
        }
        session: dict[str, Any] = {
            "type": self.kind,
            "object": f"realtime.{'transcription_' if self.kind == 'transcription' else ''}session",
            "id": session_id,
            "expires_at": expires_at,
            "include": list(self.include) or None,
        }
        if self.kind == "transcription":
            return session | {"audio": {"input": heard}}
        spoken = {"format": self.output_format.wire(), "voice": self.voice, "speed": self.speed}
        return session | {
            "model": offer.model,
            "output_modalities": [self.modality],
            "instructions": self.instructions,
            "tools": [tool_wire(tool) for tool in self.tools],
            "tool_choice": choice_wire(self.tool_choice),
            "parallel_tool_calls": self.parallel_tool_calls,
            "max_output_tokens": tokens_wire(self.max_output_tokens),
            "tracing": None,
            "prompt": None,
            "truncation": self.truncation,
            "audio": {"input": heard, "output": spoken},
        }


def tool_wire(tool: Tool) -> Mapping[str, Any]:
    """A tool in the protocol's flat shape."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def choice_wire(choice: str) -> Any:
    """A tool choice: one of the three words, or a function by name."""
    named = choice not in ("auto", "none", "required")
    return {"type": "function", "name": choice} if named else choice


def tokens_wire(tokens: int | None) -> int | str:
    """A limit of tokens; none is "inf"."""
    return "inf" if tokens is None else tokens
