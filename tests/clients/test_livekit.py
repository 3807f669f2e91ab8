"""LiveKit's realtime model, unmodified: it waits for echoes of what it sends, and asserts ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from caller import words
from clients import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


async def test_livekit_syncs_its_context_asks_and_hears(
    tools: str, question: Path, run_client: Run
) -> None:
    seen = await run_client("livekit-1.8.9", "livekit_talk.py", tools, question)
    assert (seen["errors"], seen["problems"]) == ([], [])
    assert words(seen["greeting"]["text"]) == words("You said my name is Ada.")
    assert words(seen["answer"]["text"]) == words("You said what is the weather in Oslo.")
    assert min(seen["greeting"]["samples"], seen["answer"]["samples"]) > 24_000
    assert seen["heard"] == ["what is the weather in Oslo"]
    assert seen["items"] == 4
