"""What is told of a turn once it is over: metrics, spans, and one log line, never its content."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from opentelemetry import trace

from .metrics import Metrics

logger = logging.getLogger("motet.turn")
content = logging.getLogger("motet.content")
tracer = trace.get_tracer("motet")

SAYING = frozenset(
    {
        "conversation.item.input_audio_transcription.completed",
        "response.output_audio_transcript.done",
    }
)
STAGES = {
    "vad": "vad_ms",
    "end_of_turn": "end_of_turn_ms",
    "asr": "asr_ms",
    "llm_first_token": "llm_first_token_ms",
    "tts_first_audio": "tts_first_audio_ms",
    "voice_to_voice": "total_ms",
}


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """Where a turn's time went, in milliseconds; None for what it didn't have.

    `total_ms` runs from the end of speech to the first audio that was sent; `outcome` is the
    response's final status (completed, cancelled, incomplete, failed).
    """

    pipeline: str
    door: str
    session: str
    response: str
    outcome: str
    speech_ms: float | None = None
    vad_ms: float | None = None
    end_of_turn_ms: float | None = None
    asr_ms: float | None = None
    llm_first_token_ms: float | None = None
    tts_first_audio_ms: float | None = None
    total_ms: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    audio_ms: float = 0.0
    version: str = "1"


def record_turn(metrics: Metrics, record: TurnRecord) -> None:
    """Count the turn, observe its stages, trace it, and log one line of JSON."""
    metrics.turns.labels(record.pipeline, record.outcome).inc()
    for stage, name in STAGES.items():
        took_ms = getattr(record, name)
        if took_ms is not None:
            metrics.stages.labels(record.pipeline, stage).observe(took_ms / 1000)
    trace_turn(record)
    known = {name: value for name, value in asdict(record).items() if value is not None}
    logger.info(json.dumps({"event": "turn", **known}))


def log_content(event: Mapping[str, Any]) -> None:
    """Log what was said, from an event of the realtime protocol. Only where the server is told to
    (`--log-content`)."""
    if event.get("type") in SAYING:
        content.info(json.dumps({"event": event["type"], "text": event.get("transcript", "")}))


def trace_turn(record: TurnRecord, end_ns: int | None = None) -> None:
    """A span for the turn, from the end of speech to its first audio, and one for each stage.

    The stages follow each other; the spans are made when the turn is over, with their true times.
    """
    if record.total_ms is None:
        return
    end_ns = time.time_ns() if end_ns is None else end_ns
    start_ns = end_ns - int(record.total_ms * 1e6)
    attributes = {
        "motet.pipeline": record.pipeline,
        "motet.version": record.version,
        "motet.door": record.door,
        "motet.session": record.session,
        "motet.outcome": record.outcome,
    }
    turn = tracer.start_span("motet.turn", start_time=start_ns, attributes=attributes)
    context = trace.set_span_in_context(turn)
    at_ns = start_ns
    for stage, name in STAGES.items():
        took_ms = getattr(record, name)
        if took_ms is None or stage == "voice_to_voice":
            continue
        span = tracer.start_span(f"motet.{stage}", context=context, start_time=at_ns)
        at_ns += int(took_ms * 1e6)
        span.end(at_ns)
    turn.end(end_ns)
