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
    if hasattr(pipe, "decode_latents"):
        return True
    unpack = getattr(pipe, "_unpack_latents", None)
    if unpack is None:
        return hasattr(pipe, "vae")
    return list(inspect.signature(unpack).parameters)[1:3] == ["height", "width"]


@torch.no_grad()
def preview(pipe: Any, latents: Tensor, height: int, width: int) -> list[Pixels]:
    """One picture (height, width, 3) per row; of a clip its first frame."""
    if latents.dim() == 5 and latents.shape[2] > 1:
        latents = latents[:, :, :1]
    if latents.dim() == 5 and hasattr(pipe, "decode_latents"):
        return [to_pixels(one[0]) for one in pipe.decode_latents(latents, "pt")]
    unpack = getattr(pipe, "_unpack_latents", None)
    if unpack is not None:
        latents = unpack(latents, height, width, pipe.vae_scale_factor)
    pictures = pipe.vae.decode(unscaled(pipe.vae, latents).to(pipe.vae.dtype), return_dict=False)[0]
    if pictures.dim() == 5:
        pictures = pictures[:, :, 0]
    return [to_pixels(one) for one in (pictures.float() / 2 + 0.5).clamp(0, 1)]


def unscaled(vae: Any, latents: Tensor) -> Tensor:
    """Latents as the decoder wants them: by channel means where the VAE has those, else scaled."""
    config = vae.config
    mean, std = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
    if mean is not None and std is not None:
        shape = (1, -1, *(1 for _ in latents.shape[2:]))
        mean, std = (torch.tensor(one).view(shape).to(latents) for one in (mean, std))
        scale = getattr(config, "scaling_factor", None) or 1.0
        return latents * std / scale + mean
    return latents / config.scaling_factor + (getattr(config, "shift_factor", None) or 0.0)


def to_pixels(picture: Tensor) -> Pixels:
    """uint8 (..., height, width, 3) of a tensor (..., 3, height, width) in 0..1."""
    last = picture.movedim(-3, -1).float().clamp(0, 1)
    return (last * 255).round().to(torch.uint8).cpu().numpy().astype(np.uint8, copy=False)
