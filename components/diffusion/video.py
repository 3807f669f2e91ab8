"""`diffusion/video`: clips from words, one at a time, on diffusers' video pipelines."""

from __future__ import annotations

from ..frames import Frame, Generate, Image, Progress, VideoClip
from .generate import DEFAULT_FPS, Generator
from .shot import Made, Shape


class DiffusionVideo(Generator):
    """A `Generate` in; `Progress`, previews (first frames) and the clips out."""

    accepts = (Generate,)
    emits = (Progress, Image, VideoClip)
    concurrency = 4
    clips = True

    def _result(self, made: Made, index: int, shape: Shape) -> Frame:
        return VideoClip(made.pixels, shape.fps or DEFAULT_FPS, index, made.meta)
