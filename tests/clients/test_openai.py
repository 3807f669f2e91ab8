"""openai-python, unmodified, in three generations, talks to the default voice pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from caller import words
from clients import QUESTION, Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize(
    ("version", "needs"), [("3.57.0", ()), ("2.54.0", ()), ("1.109.1", ("ws",))]
)
async def test_a_spoken_and_a_written_turn(
    version: str, needs: tuple[str, ...], voice: str, question: Path, run_client: Run
) -> None:
    seen = await run_client(f"openai-{version}", "openai_talk.py", voice, question, *needs)
    assert set(words(seen["heard"])) >= {"capital", "france"}, QUESTION
    assert seen["spoken_status"] == "completed"
    assert words(seen["spoken"])
    assert seen["audio_bytes"] > 24_000
    assert words(seen["written"])
    assert seen["retrieved"] == seen["spoken"]
    assert seen["secret"] == "ek_"
    misread = [
        kind
        for kind, name in zip(seen["types"], seen["classes"], strict=True)
        if name == "ConversationCreatedEvent" and kind != "conversation.created"
    ]
    assert not misread, "the SDK reads an event it doesn't know as its union's first"
