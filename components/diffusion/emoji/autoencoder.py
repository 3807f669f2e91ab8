"""Trains the per-frame autoencoder: 96 x 96 pictures to 12 x 12 latents of 16 channels."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, cast

import torch
from diffusers.models.autoencoders.autoencoder_dc import AutoencoderDC
from torch import Tensor, nn
from torch.nn import functional

from . import checkpoint, scene

LATENT_CHANNELS = 16
_WIDTHS = (48, 48, 96, 192)
_LAYERS = (0, 1, 1, 1)
_LATENT_NOISE = 0.08
_RATE = 2e-3
log = logging.getLogger(__name__)


def build_autoencoder() -> AutoencoderDC:
    """The untrained model: a first stage without layers, so that no convolution sees 96 x 96."""
    none = ((),) * len(_WIDTHS)
    return AutoencoderDC(
        latent_channels=LATENT_CHANNELS,
        encoder_block_out_channels=_WIDTHS,
        decoder_block_out_channels=_WIDTHS,
        encoder_layers_per_block=_LAYERS,
        decoder_layers_per_block=_LAYERS,
        encoder_qkv_multiscales=none,
        decoder_qkv_multiscales=none,
    )


def train_autoencoder(pictures: Tensor, path: Path, steps: int, batch: int = 32) -> AutoencoderDC:
    """Train, or go on training, with state in `path`; `pictures` is premultiplied RGBA."""
    model = build_autoencoder()
    _run(model, list(model.parameters()), pictures, path, steps, batch)
    return model.eval()


def refine_decoder(
    model: AutoencoderDC, pictures: Tensor, path: Path, steps: int, batch: int = 32
) -> AutoencoderDC:
    """Train only the decoder further, which leaves the latents that diffusion has learned alone."""
    model.encoder.requires_grad_(False)
    _run(model, list(model.decoder.parameters()), pictures, path, steps, batch)
    model.encoder.requires_grad_(True)
    return model.eval()


def _run(
    model: AutoencoderDC,
    parameters: list[nn.Parameter],
    pictures: Tensor,
    path: Path,
    steps: int,
    batch: int,
) -> None:
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(
        parameters, _RATE, betas=(0.9, 0.99), weight_decay=0
    )
    start = 0
    if (state := checkpoint.restore(path)) is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = int(state["step"])
    for step in range(start, steps):
        generator = torch.Generator().manual_seed(step)
        for group in optimizer.param_groups:
            group["lr"] = _RATE * _learning_rate(step, steps)
        loss, error = _loss(model, _sample(pictures, batch, generator))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        if step % 50 == 0:
            log.info("autoencoder step %d/%d psnr %.2f dB", step, steps, _psnr_db(error))
        if (step + 1) % 100 == 0 or step + 1 == steps:
            checkpoint.save(path, _state(model, optimizer, step + 1))


def _state(model: AutoencoderDC, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}


def _learning_rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def _psnr_db(squared_error: float) -> float:
    return 10 * math.log10(4 / squared_error)


def _loss(model: AutoencoderDC, frames: Tensor) -> tuple[Tensor, float]:
    with torch.autocast("cpu", torch.bfloat16):
        latent = model.encode(frames, return_dict=False)[0]
        noisy = latent + _LATENT_NOISE * torch.randn_like(latent)
        again = cast("tuple[Tensor]", model.decode(noisy, return_dict=False))[0]
    latent, again = latent.float(), again.float()
    squared = functional.mse_loss(again, frames)
    # Every channel is asked for mean 0 and deviation 1, so that diffusion needs no scaling.
    mean = latent.mean(dim=(0, 2, 3))
    spread = latent.std(dim=(0, 2, 3))
    standard = (mean.square() + (spread - 1).square()).mean()
    loss = functional.l1_loss(again, frames) + 0.5 * squared + 0.02 * standard
    return loss, float(squared.detach())


def _sample(pictures: Tensor, batch: int, generator: torch.Generator) -> Tensor:
    """Half of the batch as it is, half placed, turned and with its colours rotated at random."""
    index = torch.randint(len(pictures), (batch,), generator=generator)
    random = torch.rand(5, batch, generator=generator)
    moved = torch.arange(batch) % 2 == 1
    size = torch.where(moved, 0.35 + 0.65 * random[0], 1.0)
    room = 1.1 - size
    x = torch.where(moved, (2 * random[1] - 1) * room, 0.0)
    y = torch.where(moved, (2 * random[2] - 1) * room, 0.0)
    degrees = torch.where(moved, 360 * random[3], 0.0)
    source = pictures[index]
    tinted = moved & (random[4] < 0.5)
    source = torch.where(tinted[:, None, None, None], _rotate_hue(source, random[4]), source)
    return scene.render(source, scene.Pose(x, y, size, degrees))


def _rotate_hue(pictures: Tensor, turns: Tensor) -> Tensor:
    """Turn RGB about the grey axis by `turns` of a circle each (Rodrigues' formula)."""
    angle = 4 * math.pi * turns[:, None, None]
    axis = torch.full((3, 3), 1 / 3)
    third = 1 / math.sqrt(3)
    cross = torch.tensor([[0, -third, third], [third, 0, -third], [-third, third, 0]])
    matrix = torch.cos(angle) * (torch.eye(3) - axis) + axis + torch.sin(angle) * cross
    rgb = torch.einsum("nij,njhw->nihw", matrix, pictures[:, :3])
    alpha = pictures[:, 3:]
    return torch.cat([torch.minimum(rgb.clamp(min=0), alpha), alpha], dim=1)
