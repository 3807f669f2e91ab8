"""A pipeline of one diffusion component, asked for pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from motet.components.frames import Frame, Generate, Image
from motet.pipelines import Pipeline, build
from motet.pipelines.spec import PipelineSpec

SIZE: dict[str, Any] = {"width": 32, "height": 32}


@asynccontextmanager
async def serving(model: Path, kind: str = "image", **options: object) -> AsyncIterator[Pipeline]:
    node = {"use": f"diffusion/{kind}", "model": str(model), "options": {"steps": 4, **options}}
    spec = {"name": "media", "nodes": {"make": node}, "edges": ["input -> make -> output"]}
    async with Pipeline(build(PipelineSpec.model_validate(spec))) as pipeline:
        yield pipeline


async def ask(pipeline: Pipeline, request: Generate) -> list[Frame]:
    return [frame async for frame in pipeline.ask(request)]


def images(frames: list[Frame], preview: bool = False) -> list[Image]:
    return [one for one in frames if isinstance(one, Image) and one.preview == preview]


def engine_of(pipeline: Pipeline) -> Any:
    replica: Any = pipeline.runtime
    return replica.component("make")._engine
