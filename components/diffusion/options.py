"""What a pipeline file says of a diffusion model, and what a request may say over it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..base import Options
from .caching import CacheOptions
from .decoding import TilingOptions
from .precision import PrecisionPolicy
from .skip import GuidanceOptions

Dtype = Literal["float32", "bfloat16", "float16"]


class Lora(Options):
    """Low-rank weights added to the model when it loads: a local folder or file, or a hub id."""

    model: str
    weight_name: str | None = None
    scale: float = Field(default=1.0, ge=-4, le=4)


class ParallelOptions(Options):
    """Several processes for one picture, on GPUs one each: `cfg` shares out the two branches of
    guidance, `ring` and `ulysses` the tokens of one denoiser call; all three multiply.

    `timeout_s` is how long a process waits for another before the run counts as failed.
    """

    cfg: Literal[1, 2] = 1
    ring: int = Field(default=1, ge=1, le=64)
    ulysses: int = Field(default=1, ge=1, le=64)
    timeout_s: float = Field(default=120.0, gt=0, le=3600)

    @property
    def ranks(self) -> int:
        """How many processes."""
        return self.cfg * self.ring * self.ulysses


class DiffusionOptions(Options):
    """How the model is loaded, what a request gets that doesn't say, and how far it may go.

    `vae_tiling` true is the VAE's own way; with sizes it is ours, shared over parallel processes.
    `scheduler` names a class of diffusers with `scheduler_options` over the model's own settings.
    `call` holds further arguments of the pipeline's call, by their names there. Up to `max_batch`
    pictures of like requests share a run; the first of them waits `window_ms` for the others.
    """

    device: str = "cpu"
    dtype: Dtype = "float32"
    vae_dtype: Dtype | None = None
    variant: str | None = None
    offload: Literal["none", "model", "sequential"] = "none"
    vae_tiling: bool | TilingOptions = False
    scheduler: str | None = None
    scheduler_options: dict[str, Any] = Field(default_factory=dict)
    lora: list[Lora] = Field(default_factory=list, max_length=8)

    width: int | None = Field(default=None, ge=16)
    height: int | None = Field(default=None, ge=16)
    frames: int | None = Field(default=None, ge=1)
    fps: float | None = Field(default=None, gt=0, le=120)
    steps: int | None = Field(default=None, ge=1)
    guidance: float | None = Field(default=None, ge=0)
    strength: float = Field(default=0.7, gt=0, le=1)
    call: dict[str, Any] = Field(default_factory=dict)

    guidance_skip: GuidanceOptions = GuidanceOptions()
    cache: CacheOptions | None = None
    precision: PrecisionPolicy | None = None

    parallel: ParallelOptions = ParallelOptions()

    max_batch: int = Field(default=4, ge=1, le=64)
    window_ms: float = Field(default=20.0, ge=0, le=1000)
    max_waiting: int = Field(default=64, ge=1)
    max_count: int = Field(default=10, ge=1, le=100)
    max_steps: int = Field(default=100, ge=1, le=1000)
    max_pixels: int = Field(default=2048 * 2048, ge=256)
    max_frames: int = Field(default=257, ge=1)


class RequestOptions(Options):
    """What `Generate.options` may hold; None leaves it to the pipeline file.

    `cache` false turns caching off for this request. `effort` multiplies the steps where the
    request doesn't say how many. `seconds` is a clip's length: its frames follow from the frame
    rate, and where they would be more than `max_frames` the frame rate falls.
    """

    guidance_skip: GuidanceOptions | None = None
    cache: CacheOptions | Literal[False] | None = None
    effort: float = Field(default=1.0, ge=0.1, le=4)
    seconds: float | None = Field(default=None, gt=0, le=600)
