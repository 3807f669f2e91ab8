"""The ready-made chat, asked as the README asks it: by a user alone."""

from __future__ import annotations

import pytest

from motet.components.frames import Message, Prompt, TextDelta
from motet.components.models import is_installed
from motet.pipelines import Pipeline, load

pytestmark = [
    pytest.mark.skipif(not is_installed("smollm2-135m"), reason="the weights aren't installed"),
    pytest.mark.timeout(60),
]


async def test_a_chat_without_a_system_message_is_answered() -> None:
    prompt = Prompt(
        (Message("user", "What is the capital of France?"),), temperature=0, max_tokens=24
    )
    async with Pipeline(load("chat")) as pipeline:
        said = [frame.text async for frame in pipeline.ask(prompt) if isinstance(frame, TextDelta)]
    assert "".join(said) == "The capital of France is Paris."
