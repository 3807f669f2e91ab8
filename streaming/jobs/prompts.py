"""Jobs that are prompts, on pipelines that make pictures and clips: what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...components.errors import BadInput
from ...components.frames import Generate
from ...pipelines.pipeline import Pipeline
from ..images.request import ImageRequest, validated
from ..server import makes, takes
from ..videos.request import VideoRequest
from .store import Job

Asked = ImageRequest | VideoRequest
_NOT_OURS = ("model", "prompt", "stream", "partial_images", "progress", "response_format")


def generates(pipeline: Pipeline) -> bool:
    """Whether its jobs are prompts, and their results files."""
    return takes(pipeline, ["Generate"])


def checked(pipeline: Pipeline, prompt: str, options: Mapping[str, Any]) -> Asked:
    """A job's prompt and options as a request: those of `/v1/images/generations` or of
    `/v1/videos`, by what the pipeline makes, less what only an answer at once has.

    Raises:
        BadInput: with every fault.
    """
    for name in _NOT_OURS:
        if name in options:
            raise BadInput(f"{name}: jobs of prompts have no such option", param="options")
    kind = VideoRequest if makes(pipeline, ["VideoClip"]) else ImageRequest
    asked: Asked = validated(kind, {**options, "prompt": prompt})
    pipeline.refuse(asked.frame())
    return asked


def frame_of(pipeline: Pipeline, job: Job, image: bytes | None) -> Generate:
    """What the pipeline is asked for a job; `image` is the picture that came along."""
    return checked(pipeline, job.input["prompt"], job.options).frame(image)
