"""Where frames enter a graph with a conversation."""

from __future__ import annotations

import pytest

from motet.components.frames import (
    Audio,
    Clear,
    Commit,
    Prompt,
    TranscriptionSettings,
    TurnSettings,
)
from motet.pipelines import build
from motet.pipelines.spec import PipelineSpec

VOICE = {
    "name": "voice",
    "nodes": {name: {"use": f"fakes:{name.title()}"} for name in ("hear", "answer", "say")},
    "edges": ["input -> hear -> conversation", "conversation -> answer -> say -> conversation"],
    "conversation": {},
}


@pytest.mark.parametrize("kind", [Audio, Commit, Clear, TurnSettings, TranscriptionSettings])
def test_what_a_client_says_wakes_no_language_model(kind: type) -> None:
    graph = build(PipelineSpec.model_validate(VOICE))
    assert graph.entries(kind) == ("hear",)
    assert graph.entries(Prompt) == ("answer",)
