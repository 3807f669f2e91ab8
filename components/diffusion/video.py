"""`diffusion/video`: clips from words, one at a time, on diffusers' video pipelines."""

from __future__ import annotations

from ..frames import Frame, Generate, Image, Progress, VideoClip
from .generate import Generator
from .shot import Made

DEFAULT_FPS = 8.0


class DiffusionVideo(Generator):
    """A `Generate` in; `Progress`, previews (first frames) and the clips out."""

    accepts = (Generate,)
    emits = (Progress, Image, VideoClip)
    concurrency = 4
    clips = True

    def _result(self, made: Made, index: int, asked: Generate) -> Frame:
        fps = asked.fps or self._options.fps or DEFAULT_FPS
        return VideoClip(made.pixels, fps, index, made.meta)
