"""`diffusion/image`: pictures from words, or words and a picture, on diffusers pipelines."""

from __future__ import annotations

from ..frames import Frame, Generate, Image, Progress
from .generate import Generator
from .shot import Made, Shape


class DiffusionImage(Generator):
    """A `Generate` in; `Progress`, previews and `count` pictures out.

    Like requests that come within the window share a batch; each picture has a generator of its
    own, so a seed gives the same picture alone and in company. `Image.meta` has the seed, the
    denoiser rows saved of the total, blocks saved, cache hits and the milliseconds of the run.
    """

    accepts = (Generate,)
    emits = (Progress, Image)
    concurrency = 16
    clips = False

    def _result(self, made: Made, index: int, shape: Shape) -> Frame:
        del shape
        return Image(made.pixels[0], index, False, made.meta)
