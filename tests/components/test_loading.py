"""What every component owes the loop while it loads, and the operator before it does."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from motet.components import models, registry
from motet.components.base import Setup
from motet.components.errors import MissingRequirement

FROM_THE_HUB = (
    "vad/silero", "turn/smart", "asr/ct2", "asr/hf", "tts/piper", "llm/llama", "llm/hf",
    "embed/text", "codec/snac", "vision/encoder", "diffusion/image",
)  # fmt: skip


@pytest.mark.parametrize("use", FROM_THE_HUB)
async def test_weights_are_fetched_off_the_event_loop_and_only_to_load(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if registry.entry(use).missing:
        pytest.skip("its packages aren't installed")
    asked: list[str] = []

    def snapshot(repo: str, revision: str | None) -> Path:
        asked.append(threading.current_thread().name)
        raise MissingRequirement("no network")

    monkeypatch.setattr(models, "hub_snapshot", snapshot)
    setup = Setup("node", "owner/name")
    assert registry.component_class(use).requirements(setup) == []
    assert asked == [], "a check downloads nothing"
    component = registry.build(use, setup)
    with pytest.raises(MissingRequirement, match="no network"):
        await component.load()
    await component.close()
    assert asked
    assert threading.main_thread().name not in asked
