"""What every component owes the loop while it loads, and the operator before it does."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from tinymodels import save

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
    setup = Setup("node", "owner/name@main")
    assert registry.component_class(use).requirements(setup) == []
    assert asked == [], "a check downloads nothing"
    component = registry.build(use, setup)
    with pytest.raises(MissingRequirement, match="no network"):
        await component.load()
    await component.close()
    assert asked
    assert threading.main_thread().name not in asked


def engines() -> set[int]:
    """Models in memory, of torch and of ONNX Runtime."""
    kinds = (torch.nn.Module, onnxruntime.InferenceSession)
    return {id(held) for held in gc.get_objects() if issubclass(type(held), kinds)}


@pytest.mark.parametrize(
    "use", ["vad/silero", "embed/text", "tts/hibari", "vision/ocr", "llm/hf", "diarize/cluster"]
)
async def test_a_closed_component_holds_no_weights(use: str, request: Any) -> None:
    if registry.entry(use).missing:
        pytest.skip("its packages aren't installed")
    model = str(request.getfixturevalue("tiny")) if use == "llm/hf" else None
    before = engines()
    component: Any = registry.build(use, Setup("node", model))
    await component.load()
    if use == "diarize/cluster":
        component.open()  # which it leaves to the first file that asks
    assert engines() - before
    await component.close()
    await component.close()
    await asyncio.sleep(0)  # the loop lets go of what the last thread gave back
    gc.collect()
    assert engines() - before == set()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    save("llama", folder)
    return folder
