"""Draws training batches: latents of pictures and clips with the text states of their captions."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers.models.autoencoders.autoencoder_dc import AutoencoderDC
from torch import Tensor
from transformers import BertTokenizer, DistilBertModel

from . import captions, checkpoint, corpus, motion, scene, text
from .common import THINGS_THAT_MOVE
from .glyphs import Glyph

_NO_CAPTION_SHARE, _PAINTED_SHARE = 0.1, 0.15
_POOL_CLIPS, _FIRST_CLIPS, _NEW_CLIPS = 1500, 200, 2
_SMALL_SIZE = 0.5
_MOVING_WEIGHT = 3.0


@dataclass(frozen=True, slots=True)
class Clip:
    """A whole clip: latents (16, F, 12, 12) in float16, its caption, and where the thing is."""

    latents: Tensor
    prompt: str
    path: scene.Pose


@torch.no_grad()
def encode_frames(vae: AutoencoderDC, frames: Tensor) -> Tensor:
    """Latents (F, 16, 12, 12) of frames (F, 3, 96, 96)."""
    found: list[Tensor] = []
    for start in range(0, len(frames), 64):
        with torch.autocast("cpu", torch.bfloat16):
            latent = vae.encode(frames[start : start + 64], return_dict=False)[0]
            found.append(latent.float())
    return torch.cat(found)


class Examples:
    """The corpus as latents; clips are drawn anew all the time and each is used a few times."""

    def __init__(
        self,
        glyphs: Sequence[Glyph],
        looks: Sequence[corpus.Look],
        vae: AutoencoderDC,
        encoder: DistilBertModel,
        tokenizer: BertTokenizer,
        cache: Path,
    ) -> None:
        self.looks = looks
        self.vae = vae
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.wordings = captions.wordings(glyphs)
        self.natural = [i for i, look in enumerate(looks) if look.natural]
        self.painted = [i for i, look in enumerate(looks) if not look.natural]
        self.weights = corpus.weights(glyphs)
        # Clips show some things more than others, so that these are learned at every turn.
        moving = set(THINGS_THAT_MOVE)
        self.clip_weights = [
            weight * (_MOVING_WEIGHT if glyph.name in moving else 1.0)
            for glyph, weight in zip(glyphs, self.weights, strict=True)
        ]
        self.pool: deque[Clip] = deque(maxlen=_POOL_CLIPS)
        state = checkpoint.restore(cache)
        if state is None:
            state = {
                "full": self._encode(looks, 1.0),
                "small": self._encode([looks[i] for i in self.natural], _SMALL_SIZE),
            }
            checkpoint.save(cache, state)
        self.full: Tensor = state["full"]
        self.small: Tensor = state["small"]

    def pictures(self, count: int, rng: random.Random) -> tuple[Tensor, Tensor]:
        """Latents (N, 16, 1, 12, 12) and text states (N, T, 256)."""
        latents: list[Tensor] = []
        prompts: list[str] = []
        for _ in range(count):
            index, colour = self._choose(rng, self.weights)
            size = None
            if self.looks[index].natural and rng.random() < 0.05:
                size = rng.choice(("small", "big"))
            latents.append(self.small[index] if size == "small" else self.full[index])
            prompts.append(self._caption(index, rng, colour=colour, size=size))
        return torch.stack(latents).float()[:, :, None], self._read(prompts, rng)

    def clips(
        self, count: int, frames: Sequence[int], rng: random.Random
    ) -> tuple[Tensor, Tensor, scene.Pose]:
        """Latents (N, 16, F, 12, 12) of these frames, text states (N, T, 256), places (N, F)."""
        for _ in range(_NEW_CLIPS if len(self.pool) >= _FIRST_CLIPS else _FIRST_CLIPS):
            self.pool.append(self._clip(rng))
        chosen = rng.sample(list(self.pool), count)
        latents = torch.stack([clip.latents[:, frames] for clip in chosen]).float()
        paths = [clip.path for clip in chosen]
        path = scene.Pose(
            torch.stack([path.x[frames] for path in paths]),
            torch.stack([path.y[frames] for path in paths]),
            torch.stack([path.size[frames] for path in paths]),
            torch.stack([path.degrees[frames] for path in paths]),
        )
        return latents, self._read([clip.prompt for clip in chosen], rng), path

    def _clip(self, rng: random.Random) -> Clip:
        index, colour = self._choose(rng, self.clip_weights)
        moves = rng.choices(motion.MOTIONS, motion.WEIGHTS)[0]
        source = scene.to_tensor(self.looks[index].picture[None])
        path = motion.pose(moves, rng)
        frames = scene.render(source, path)
        latents = encode_frames(self.vae, frames).half().transpose(0, 1)
        return Clip(latents, self._caption(index, rng, colour=colour, motion=moves), path)

    def _choose(self, rng: random.Random, weights: Sequence[float]) -> tuple[int, str | None]:
        if rng.random() < _PAINTED_SHARE:
            painted = [weights[self.looks[index].glyph] for index in self.painted]
            index = rng.choices(self.painted, painted)[0]
            return index, self.looks[index].colour
        index = rng.choices(self.natural, weights)[0]
        return index, self.looks[index].colour if rng.random() < 0.12 else None

    def _caption(
        self,
        index: int,
        rng: random.Random,
        colour: str | None = None,
        size: str | None = None,
        motion: str | None = None,
    ) -> str:
        wording = self.wordings[self.looks[index].glyph]
        return captions.caption(wording, rng, colour=colour, size=size, motion=motion)

    def _read(self, prompts: list[str], rng: random.Random) -> Tensor:
        given = ["" if rng.random() < _NO_CAPTION_SHARE else prompt for prompt in prompts]
        with torch.autocast("cpu", torch.bfloat16):
            return text.encode(self.encoder, self.tokenizer, given).float()

    def _encode(self, looks: Sequence[corpus.Look], size: float) -> Tensor:
        found: list[Tensor] = []
        for start in range(0, len(looks), 64):
            rows = [scene.to_tensor(look.picture[None]) for look in looks[start : start + 64]]
            frames = scene.render(torch.cat(rows), scene.Pose.still(len(rows), size))
            found.append(encode_frames(self.vae, frames).half())
        return torch.cat(found)
