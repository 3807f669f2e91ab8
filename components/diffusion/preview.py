"""Pictures on the way: what the latents of a step would look like if they were the last."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .shot import Pixels


def previewable(pipe: Any) -> bool:
    """Whether `preview` can read this pipeline's latents."""
    if decodes_itself(pipe):
        return True
    return hasattr(pipe, "vae") and packing(pipe) in ((), *_PACKINGS)


def packing(pipe: Any) -> tuple[str, ...]:
    """What the pipeline needs to know, beside the latents, to lay them out in space; () if nothing.

    It may be the size in pixels, or that of the latents with the clip's length.
    """
    unpack = getattr(pipe, "_unpack_latents", None)
    return () if unpack is None else tuple(inspect.signature(unpack).parameters)[1:4]


_PACKINGS = (("height", "width", "vae_scale_factor"), ("num_frames", "height", "width"))


def decodes_itself(pipe: Any) -> bool:
    """Whether the pipeline turns latents of its own layout into what is asked for."""
    decode = getattr(pipe, "decode_latents", None)
    return decode is not None and "output_type" in inspect.signature(decode).parameters


@torch.no_grad()
def preview(pipe: Any, latents: Tensor, height: int, width: int, frames: int = 1) -> list[Pixels]:
    """One picture (height, width, 3) per row; of a clip its first frame."""
    latents = unpacked(pipe, latents, height, width, frames)
    if latents.dim() == 5:
        latents = channels_first(pipe.vae, latents)[:, :, :1]
        if decodes_itself(pipe):
            return [to_pixels(one[0]) for one in pipe.decode_latents(latents, "pt")]
    clean = unscaled(pipe.vae, latents).to(pipe.vae.dtype)
    # Some decoders take out the last noise themselves, and are told here that there is none.
    noise = [clean.new_zeros(len(clean))] if pipe.vae.config.get("timestep_conditioning") else []
    pictures = pipe.vae.decode(clean, *noise, return_dict=False)[0]
    if pictures.dim() == 5:
        pictures = pictures[:, :, 0]
    return [to_pixels(one) for one in (pictures.float() / 2 + 0.5).clamp(0, 1)]


def unpacked(pipe: Any, latents: Tensor, height: int, width: int, frames: int) -> Tensor:
    """Latents laid out in space, of pipelines that keep them as tokens."""
    known = packing(pipe)
    if not known:
        return latents
    if known[0] == "height":
        return pipe._unpack_latents(latents, height, width, pipe.vae_scale_factor)
    space, time = pipe.vae_spatial_compression_ratio, pipe.vae_temporal_compression_ratio
    return pipe._unpack_latents(
        latents,
        (frames - 1) // time + 1,
        height // space,
        width // space,
        pipe.transformer_spatial_patch_size,
        pipe.transformer_temporal_patch_size,
    )


def channels_first(vae: Any, latents: Tensor) -> Tensor:
    """A clip's latents with channels before frames, as decoders want them; some keep them after."""
    channels = vae.config.get("latent_channels", vae.config.get("z_dim"))
    frames_first = channels == latents.shape[2] and channels != latents.shape[1]
    return latents.transpose(1, 2) if frames_first else latents


def unscaled(vae: Any, latents: Tensor) -> Tensor:
    """Latents as the decoder wants them: by channel means where the VAE has those, else scaled."""
    config = vae.config
    mean, std = (
        getattr(config, name, getattr(vae, name, None)) for name in ("latents_mean", "latents_std")
    )
    if mean is not None and std is not None:
        shape = (1, -1, *(1 for _ in latents.shape[2:]))
        mean, std = (torch.as_tensor(one).view(shape).to(latents) for one in (mean, std))
        scale = getattr(config, "scaling_factor", None) or 1.0
        return latents * std / scale + mean
    return latents / config.scaling_factor + (getattr(config, "shift_factor", None) or 0.0)


def to_pixels(picture: Tensor) -> Pixels:
    """uint8 (..., height, width, 3) of a tensor (..., 3, height, width) in 0..1."""
    last = picture.movedim(-3, -1).float().clamp(0, 1)
    return (last * 255).round().to(torch.uint8).cpu().numpy().astype(np.uint8, copy=False)
