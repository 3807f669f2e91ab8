"""What a component emits without having said so is a fault of its own, never lost in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from motet.components.base import Component, Context
from motet.components.errors import ComponentFailed
from motet.components.frames import Frame, Progress, TextInput
from motet.pipelines import Pipeline, build
from motet.pipelines.spec import PipelineSpec

SAID: dict[str, Any] = {"frame": Progress(1, 2), "nothing": None, "number": 5}


class Astray(Component):
    """Emits what a text names, which it hasn't declared."""

    accepts = (TextInput,)
    emits = (TextInput,)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        """Answer each text."""
        del context
        async for frame in frames:
            yield SAID.get(frame.text, frame) if isinstance(frame, TextInput) else frame


@pytest.mark.parametrize(
    ("text", "kind"), [("frame", "Progress"), ("nothing", "NoneType"), ("number", "int")]
)
def test_an_undeclared_frame_is_the_components_fault(text: str, kind: str) -> None:
    spec = PipelineSpec.model_validate(
        {
            "name": "p",
            "nodes": {"a": {"use": f"{__name__}:Astray"}},
            "edges": ["input -> a -> output"],
        }
    )

    async def scenario() -> None:
        async with Pipeline(build(spec)) as pipeline:
            with pytest.raises(ComponentFailed, match=f"emitted {kind}.*TextInput"):
                [frame async for frame in pipeline.ask(TextInput(text))]
            said = [frame async for frame in pipeline.ask(TextInput("hi"))]
            assert [frame.text for frame in said if isinstance(frame, TextInput)] == ["hi"]

    asyncio.run(scenario())
