"""Trains the Wan transformer by flow matching, on pictures and on clips of which it sees parts."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any, cast

import torch
from diffusers.models.transformers.transformer_wan import WanTransformer3DModel
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import mse_loss

from . import checkpoint, positions
from .autoencoder import LATENT_CHANNELS
from .examples import Examples
from .motion import CLIP_FRAMES
from .text import HIDDEN

HEADS, HEAD_SIZE, LAYERS, FFN = 4, 64, 5, 768
FRAMES_A_STEP = 96
# How often a step shows pictures (0) or so many frames of each of its clips. A few frames cost
# little and teach how a thing looks at any place; whole clips teach that frames belong together.
_EARLY = {0: 0.3, 1: 0.45, 4: 0.25}
_LATE = {0: 0.25, 1: 0.25, 4: 0.3, 16: 0.2}
_LATE_FROM, _DECAY_FROM = 0.5, 0.4
# What words mean is decided while nearly all is noise, so that most steps are taken there.
_SHIFT, _SHIFT_BY_FRAMES = 4.0, 0.3
_MUON_RATE, _ADAM_RATE = 4e-3, 1.5e-3
_EMA = 0.99
log = logging.getLogger(__name__)


def build_transformer() -> WanTransformer3DModel:
    """The untrained model; it predicts nothing at first, which starts training smoothly."""
    model = WanTransformer3DModel(
        num_attention_heads=HEADS,
        attention_head_dim=HEAD_SIZE,
        in_channels=LATENT_CHANNELS + positions.CHANNELS,
        out_channels=LATENT_CHANNELS,
        text_dim=HIDDEN,
        ffn_dim=FFN,
        num_layers=LAYERS,
        rope_max_seq_len=64,
    )
    nn.init.zeros_(model.proj_out.weight)
    nn.init.zeros_(model.proj_out.bias)
    return model


class _FrameRope(nn.Module):
    """Wan's rotary embedding for some frames of a clip: each keeps its number in the whole one."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.whole = whole
        self.shown: list[int] | None = None

    def forward(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        if self.shown is None:
            return self.whole(latents)
        rows, columns = latents.shape[3:]
        clip = latents.new_empty(()).expand(1, 1, CLIP_FRAMES, rows, columns)
        cos, sin = cast("tuple[Tensor, Tensor]", self.whole(clip))
        return self._of_shown(cos), self._of_shown(sin)

    def _of_shown(self, waves: Tensor) -> Tensor:
        tokens, size = waves.shape[1], waves.shape[-1]
        by_frame = waves.view(1, CLIP_FRAMES, tokens // CLIP_FRAMES, 1, size)
        return by_frame[:, self.shown].reshape(1, -1, 1, size)


class Trainer:
    """Model, averaged weights, optimizers and step count; all of it survives a kill."""

    def __init__(
        self,
        examples: Examples,
        path: Path,
        steps: int,
        start: WanTransformer3DModel | None = None,
    ) -> None:
        self.examples = examples
        self.path = path
        self.steps = steps
        self.step = 0
        self.model = build_transformer() if start is None else start.train()
        self.rope = _FrameRope(self.model.rope)
        self.model.add_module("rope", self.rope)
        matrices, others = _split(self.model)
        # Muon for the matrices inside the blocks: about half the steps that AdamW needs here.
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices,
                _MUON_RATE,
                weight_decay=0.01,
                ns_steps=4,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(others, _ADAM_RATE, betas=(0.9, 0.99), weight_decay=0.0),
        ]
        self.rates = (_MUON_RATE, _ADAM_RATE)
        self.average = {name: value.clone() for name, value in self._state().items()}
        if (state := checkpoint.restore(path)) is not None:
            self._restore(state)

    def train(self, save_every: int = 100) -> None:
        """Run to the last step; the rate falls linearly to zero over the last part."""
        mean_loss: dict[int, float] = {}
        while self.step < self.steps:
            rng = random.Random(self.step)
            share = _EARLY if self.step < _LATE_FROM * self.steps else _LATE
            count = rng.choices(list(share), list(share.values()))[0]
            loss = self._learn(count, rng, torch.Generator().manual_seed(self.step))
            mean_loss[count] = 0.95 * mean_loss.get(count, loss) + 0.05 * loss
            self.step += 1
            if self.step % 25 == 0:
                log.info(
                    "denoiser step %d/%d loss by frames of a clip %s",
                    self.step,
                    self.steps,
                    {key: round(value, 4) for key, value in sorted(mean_loss.items())},
                )
            if self.step % save_every == 0 or self.step == self.steps:
                self._save()

    def averaged(self) -> WanTransformer3DModel:
        """A model with the averaged weights, for generation."""
        model = build_transformer()
        model.load_state_dict(self.average)
        return model.eval()

    def _learn(self, frames: int, rng: random.Random, generator: torch.Generator) -> float:
        """One step on pictures (`frames` is 0) or on so many frames of each clip; the loss."""
        rate = self._rate()
        for optimizer, base in zip(self.optimizers, self.rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
        path = None
        self.rope.shown = None
        if frames == 0:
            latents, text = self.examples.pictures(FRAMES_A_STEP, rng)
        else:
            shown = sorted(rng.sample(range(CLIP_FRAMES), frames))
            latents, text, path = self.examples.clips(FRAMES_A_STEP // frames, shown, rng)
            self.rope.shown = shown if frames > 1 else None
        noise = torch.randn(latents.shape, generator=generator)
        sigma = torch.sigmoid(torch.randn(len(latents), generator=generator))
        # Frames repeat each other, so that a clip needs more noise to hide as much.
        shift = _SHIFT * max(1, frames) ** _SHIFT_BY_FRAMES
        sigma = shift * sigma / (1 + (shift - 1) * sigma)
        mix = sigma.view(-1, 1, 1, 1, 1)
        noisy = (1 - mix) * latents + mix * noise
        # Plain matrix products beat fused attention in the backward pass at 36 tokens.
        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
            inputs = positions.with_positions(noisy, path)
            velocity = self.model(inputs, sigma * 1000, text, return_dict=False)[0]
        loss = mse_loss(velocity.float(), noise - latents)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self._follow()
        return float(loss.detach())

    def _rate(self) -> float:
        warm = min(1.0, (self.step + 1) / 30)
        left = (self.steps - self.step) / (self.steps * (1 - _DECAY_FROM))
        return warm * min(1.0, left)

    @torch.no_grad()
    def _follow(self) -> None:
        keep = min(_EMA, (self.step + 1) / (self.step + 10))
        for name, value in self._state().items():
            self.average[name].lerp_(value, 1 - keep)

    def _state(self) -> dict[str, Tensor]:
        return cast("dict[str, Tensor]", self.model.state_dict())

    def _save(self) -> None:
        checkpoint.save(
            self.path,
            {
                "step": self.step,
                "model": self._state(),
                "average": self.average,
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            },
        )

    def _restore(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])
        self.model.load_state_dict(state["model"])
        self.average = state["average"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def _split(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        inside = name.startswith("blocks.") and parameter.ndim == 2
        (matrices if inside else others).append(parameter)
    return matrices, others
