"""Pipecat's OpenAI Realtime service, unmodified: any error it doesn't know ends its session."""

from __future__ import annotations

from pathlib import Path

import pytest
from caller import words
from clients import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


async def test_pipecat_greets_hears_and_answers(
    tools: str, question: Path, run_client: Run
) -> None:
    seen = await run_client("pipecat-1.14.0", "pipecat_talk.py", tools, question)
    assert seen["errors"] == []
    assert words(seen["greeting"])
    assert words(seen["answer"]) == words("You said what is the weather in Oslo.")
    assert seen["audio_bytes"] > 24_000
    said = [message["content"] for message in seen["messages"] if message["role"] == "user"]
    assert said == ["what is the weather in Oslo"]
    assert "InterruptionFrame" in seen["kinds"], "it stops its player when somebody speaks"
