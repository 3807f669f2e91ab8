"""What is told of a turn: metrics, spans with their true times, one log line without content."""

from __future__ import annotations

import itertools
import json
import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from motet.streaming.operate import observe
from motet.streaming.operate.metrics import Metrics

RECORD = observe.TurnRecord(
    "voice",
    "realtime",
    "sess_1",
    "resp_1",
    "completed",
    speech_ms=1500,
    vad_ms=160,
    end_of_turn_ms=340,
    asr_ms=5,
    llm_first_token_ms=60,
    tts_first_audio_ms=35,
    total_ms=600,
    output_tokens=8,
)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(observe, "tracer", provider.get_tracer("test"))
    return exporter


def test_a_turn_is_counted_and_its_stages_observed() -> None:
    metrics = Metrics({})
    observe.record_turn(metrics, RECORD)
    text = metrics.text().decode()
    assert 'motet_turns_total{outcome="completed",pipeline="voice"} 1.0' in text
    for stage in observe.STAGES:
        assert f'motet_stage_seconds_count{{pipeline="voice",stage="{stage}"}} 1.0' in text
    assert 'motet_stage_seconds_sum{pipeline="voice",stage="voice_to_voice"} 0.6' in text


def test_spans_follow_each_other_inside_the_turn(spans: InMemorySpanExporter) -> None:
    observe.trace_turn(RECORD, end_ns=10_000_000_000)
    *stages, turn = spans.get_finished_spans()
    assert turn.name == "motet.turn"
    assert (turn.start_time, turn.end_time) == (9_400_000_000, 10_000_000_000)
    assert [span.name for span in stages] == [
        f"motet.{stage}" for stage in observe.STAGES if stage != "voice_to_voice"
    ]
    assert stages[0].start_time == turn.start_time
    assert all(a.end_time == b.start_time for a, b in itertools.pairwise(stages))
    assert stages[-1].end_time == turn.end_time
    assert all(span.parent and span.parent.span_id == turn.context.span_id for span in stages)


def test_one_line_of_json_and_no_content(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="motet.turn"):
        observe.record_turn(Metrics({}), RECORD)
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert line["event"] == "turn"
    assert line["total_ms"] == 600
    assert not {"text", "transcript", "instructions"} & set(line)


def test_content_is_logged_only_of_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="motet.content"):
        observe.log_content({"type": "response.output_audio.delta", "delta": "AAAA"})
        observe.log_content({"type": "response.output_audio_transcript.done", "transcript": "Hi."})
    (line,) = [json.loads(record.message) for record in caplog.records]
    assert line == {"event": "response.output_audio_transcript.done", "text": "Hi."}
