"""Clips that a process makes by itself: what deleting leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet.components.base import Component, Context
from motet.components.frames import Frame, Generate, Image, VideoClip
from motet.pipelines import Pipeline, build
from motet.pipelines.spec import PipelineSpec
from motet.streaming.access.auth import Principal
from motet.streaming.videos import tasks as videostasks
from motet.streaming.videos.request import VideoRequest
from motet.streaming.videos.tasks import VideoTasks

SPEC: dict[str, Any] = {
    "name": "videos",
    "nodes": {"a": {"use": f"{__name__}:Film"}},
    "edges": ["input -> a -> output"],
}


class Film(Component):
    """A preview, then a clip."""

    accepts = (Generate,)
    emits = (Image, VideoClip)

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        async for _ in frames:
            yield Image(np.zeros((16, 16, 3), np.uint8), preview=True)
            yield VideoClip(np.zeros((2, 16, 16, 3), np.uint8), 2.0)


@pytest.mark.parametrize("writer", ["still", "write_mp4"])
async def test_a_clip_deleted_while_it_is_written_stays_deleted(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = threading.Event(), threading.Event()
    real = getattr(videostasks, writer)

    def slow(*given: Any) -> Any:
        writing.set()
        assert go_on.wait(10)
        return real(*given)

    monkeypatch.setattr(videostasks, writer, slow)
    async with (
        Pipeline(build(PipelineSpec.model_validate(SPEC))) as pipeline,
        VideoTasks(tmp_path / "clips") as tasks,
    ):
        video = await tasks.create(pipeline, Principal("me"), VideoRequest(prompt="a cat"), None)
        assert await asyncio.to_thread(writing.wait, 10)
        deleting = asyncio.create_task(tasks.delete(video.id, "me"))
        for _ in range(20):
            await asyncio.sleep(0)
        go_on.set()
        await deleting
        await asyncio.get_running_loop().shutdown_default_executor()  # whatever still writes ends
        assert not list((tmp_path / "clips").glob("*"))
