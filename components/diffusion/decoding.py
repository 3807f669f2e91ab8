"""The VAE's decoder during one run: its rows or its tiles shared over ranks, tiles within memory.

Rows (pictures, and frames where a VAE decodes each by itself) are shared wherever there are enough
of them, which changes nothing in the result. One picture is cut into tiles only where the pipeline
file asks for it, since where tiles meet they are blended.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from pydantic import Field, model_validator
from torch import Tensor

from ...kernels.guidance import by_owner, even_owners
from ...kernels.parallel import Group
from ...kernels.tilememory import Layer, decoder_layers, fit_tiling
from ...kernels.tiles import Tiling, tiled_decode
from ..base import Options
from ..errors import BadInput
from .boundary import replaced
from .rows import bind, first_tensor, select, with_first

_SCALES = ("vae_scale_factor_spatial", "vae_spatial_compression_ratio", "vae_scale_factor")


class TilingOptions(Options):
    """Tiles of `size` latent pixels a side, or as large as `memory_mib` of activations allow.

    Each is decoded with `halo` latent pixels around it, and blended with its neighbours over
    `blend` of them (8, and of small tiles a quarter).
    """

    size: int = Field(default=64, ge=4)
    memory_mib: float | None = Field(default=None, gt=0)
    halo: int = Field(default=8, ge=0)
    blend: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> TilingOptions:
        if self.blended * 2 > self.size:
            raise ValueError(f"blend: {self.blended} is over half of size {self.size}")
        return self

    @property
    def blended(self) -> int:
        """Latent pixels that neighbours share."""
        return min(8, self.size // 4) if self.blend is None else self.blend


class Decoding:
    """`pipe.vae.decode` while `attached` is entered; every rank of `group` gets the whole."""

    def __init__(self, pipe: Any, options: TilingOptions | None, group: Group | None) -> None:
        self._vae: Any = getattr(pipe, "vae", None)
        self._options = options
        self._group = group
        self._scale = spatial_scale(pipe) if options else 1
        if options and options.memory_mib:
            layers_of(self._vae, self._scale)

    @contextmanager
    def attached(self) -> Generator[None]:
        """While entered, decoding is shared and tiled."""
        alone = self._group is None or self._group.size == 1
        if self._vae is None or (alone and self._options is None):
            yield
            return
        with replaced(self._vae, "decode", self._decode(self._vae.decode)):
            yield

    def _decode(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def decode(*args: Any, **kwargs: Any) -> Any:
            arguments = bind(signature, args, kwargs)
            name = next(iter(arguments))
            latents: Tensor = arguments[name]
            form: list[Any] = []

            def whole(rows: Tensor) -> Tensor:
                chosen = select(arguments, rows, latents.shape[0])
                return self._whole(original, name, chosen, form, None)

            if self._group is not None and latents.shape[0] >= self._group.size:
                owners = even_owners(latents.shape[0], self._group.size)
                pictures = by_owner(whole, owners, self._group)
            else:
                pictures = self._whole(original, name, arguments, form, self._group)
            return with_first(form[-1], pictures)

        decode.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return decode

    def _whole(
        self,
        original: Callable[..., Any],
        name: str,
        arguments: dict[str, Any],
        form: list[Any],
        group: Group | None,
    ) -> Tensor:
        """These rows, by tiles if they are too large for one; outputs go to `form`."""
        latents: Tensor = arguments[name]

        def part(cut: Tensor) -> Tensor:
            form[:] = [original(**{**arguments, name: cut})]
            return first_tensor(form[0])

        tiling = self._tiling(latents)
        if tiling is None or max(latents.shape[-2:]) <= tiling.size:
            return part(latents)
        return tiled_decode(part, latents, tiling, self._scale, group)

    def _tiling(self, latents: Tensor) -> Tiling | None:
        options = self._options
        if options is None:
            return None
        if options.memory_mib is None:
            return Tiling(options.size, options.halo, options.blended)
        return fit_tiling(
            layers_of(self._vae, self._scale),
            int(options.memory_mib * 2**20),
            options.halo,
            options.blended,
            frames=latents.shape[2] if latents.dim() == 5 else 1,
            dtype_bytes=latents.element_size(),
            batch=latents.shape[0],
        )


def spatial_scale(pipe: Any) -> int:
    """Pixels per latent pixel.

    Raises:
        BadInput: the pipeline doesn't tell.
    """
    for name in _SCALES:
        scale = getattr(pipe, name, None)
        if isinstance(scale, int):
            return scale
    raise BadInput(
        f"{type(pipe).__name__} doesn't tell how many pixels a latent has", where="vae_tiling"
    )


def layers_of(vae: Any, scale: int) -> tuple[Layer, ...]:
    """The decoder's layers, for the estimate of its memory.

    Raises:
        BadInput: it is of a kind whose layers aren't known.
    """
    config: Any = vae.config
    if "base_dim" in config and "dim_mult" in config:
        widths = [config["base_dim"] * factor for factor in config["dim_mult"]]
        return decoder_layers(widths, list(reversed(config["temperal_downsample"])))
    widths = config.get("block_out_channels", ())
    if 2 ** (len(widths) - 1) != scale or "temporal_compression_ratio" in config:
        raise BadInput(
            f"the memory of {type(vae).__name__} isn't known; give size instead of memory_mib",
            where="vae_tiling",
        )
    return decoder_layers(widths)
