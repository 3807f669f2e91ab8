"""openai-agents, unmodified: it checks every event strictly, runs tools, keeps a history."""

from __future__ import annotations

from pathlib import Path

import pytest
from clients import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


async def test_an_agent_uses_its_tool_in_writing_and_by_voice(
    tools: str, question: Path, run_client: Run
) -> None:
    seen = await run_client("agents-0.24.0", "agents_talk.py", tools, question)
    assert seen["calls"] == ["Oslo", "Oslo"]
    assert seen["calls_when_written"] == 1
    assert seen["kinds"].count("tool_end") == 2
    assert seen["audio_bytes"] > 48_000
    said = [
        part.get("transcript") or part.get("text") or ""
        for item in seen["history"]
        if item.get("role") == "assistant"
        for part in item["content"]
    ]
    reply = "The answer is sunny in Oslo."
    assert said[-1].strip() == reply
    # The question by voice came while the first reply still played: the agent's history, too,
    # has only what was heard of it.
    assert len(said) == 2
    assert len(said[0]) < len(reply)
    assert reply.startswith(said[0].strip())
    heard = [
        part.get("transcript")
        for item in seen["history"]
        if item.get("role") == "user"
        for part in item["content"]
        if part["type"] == "input_audio"
    ]
    assert heard == ["what is the weather in Oslo"]
