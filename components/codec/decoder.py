"""SNAC's decoder, batched: windows of equal length in, their samples out, noise by the stream.

SNAC: Multi-Scale Neural Audio Codec (Siuzdak et al. 2024, arXiv 2410.14411). At 24 kHz a frame is
2048 samples and 7 codes in three layers of 1, 2 and 4. Its noise blocks draw from the global
generator, so that a decode depends on what else is in the batch; here each stream brings noise of
its own, drawn by its seed and the frame's number, and batching changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import torch as safe_tensors
from snac import SNAC  # pyright: ignore[reportMissingTypeStubs]

from ..errors import BadInput, MissingRequirement

CODES = 7
# Which of a frame's codes, in the order that speech models emit them, belong to each layer.
LAYERS = ((0,), (1, 4), (2, 3, 5, 6))
CODEBOOK = 4096


@dataclass(frozen=True, slots=True)
class Job:
    """A window of a stream: its frames of 7 codes, the number of the first, the stream's seed."""

    frames: tuple[tuple[int, ...], ...]
    first: int
    seed: int


class StreamNoise(torch.nn.Module):
    """SNAC's noise block with the noise handed in: `noise` has shape (batch, 1, time)."""

    def __init__(self, linear: torch.nn.Module, per_frame: int) -> None:
        super().__init__()
        self.linear = linear
        self.per_frame = per_frame
        self.noise: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the noise, scaled by the signal."""
        assert self.noise is not None
        return x + self.noise * self.linear(x)


class SnacDecoder:
    """One decoder in memory. Not thread-safe: give it a thread of its own."""

    def __init__(
        self, folder: Path, *, device: str = "cpu", threads: int = 1, compiled: bool = False
    ) -> None:
        self._device = torch.device(device)
        self._threads = threads
        model = load(folder)
        self.rate_hz = int(model.sampling_rate)
        self.samples_per_frame = int(model.hop_length) * int(model.vq_strides[0])
        self._noises = list(replace_noise(model.decoder, int(model.vq_strides[0])))
        self._from_codes: Any = model.quantizer.from_codes
        model.to(self._device)
        compiler: Any = cast("Any", torch).compile
        self._decode: Any = compiler(model.decoder) if compiled else model.decoder

    @torch.inference_mode()
    def decode(self, jobs: Sequence[Job]) -> list[NDArray[np.float32]]:
        """Samples in -1..1 of shape (frames * samples_per_frame,) for windows of equal length."""
        torch.set_num_threads(self._threads)
        codes = torch.tensor([job.frames for job in jobs], dtype=torch.long)
        layers = [codes[:, :, list(layer)].flatten(1).to(self._device) for layer in LAYERS]
        for block, noise in zip(self._noises, self._noise(jobs), strict=True):
            block.noise = noise.to(self._device)
        sound = self._decode(self._from_codes(layers))
        return list(sound[:, 0].float().cpu().numpy())

    def _noise(self, jobs: Sequence[Job]) -> Iterator[torch.Tensor]:
        """For each noise block, (batch, 1, frames * per_frame) normals."""
        sizes = [block.per_frame for block in self._noises]
        rows = [
            torch.stack(
                [frame_noise(job.seed, job.first + n, sum(sizes)) for n in range(len(job.frames))]
            )
            for job in jobs
        ]
        drawn = torch.stack(rows)
        at = 0
        for size in sizes:
            yield drawn[:, :, at : at + size].flatten(1)[:, None]
            at += size


def frame_noise(seed: int, frame: int, count: int) -> torch.Tensor:
    """The normals of one frame of one stream: the same whenever and wherever they are drawn."""
    mixed = (seed * 0x9E3779B97F4A7C15 + frame * 0xBF58476D1CE4E5B9) & (2**63 - 1)
    generator = torch.Generator().manual_seed(mixed)
    return torch.randn(count, generator=generator)


def replace_noise(decoder: torch.nn.Module, latents_per_frame: int) -> Iterator[StreamNoise]:
    """Put `StreamNoise` where the decoder has its own noise blocks, in the order of layers."""
    per_frame = latents_per_frame
    for module in list(decoder.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.ConvTranspose1d):
                per_frame *= int(child.stride[0])
            elif type(child).__name__ == "NoiseBlock":
                block = StreamNoise(cast("Any", child).linear, per_frame)
                setattr(module, name, block)
                yield block


def load(folder: Path) -> Any:
    """The model of a folder: config.json and model.safetensors, or pytorch_model.bin read as
    weights only.

    Raises:
        MissingRequirement: a file is missing.
        BadInput: the codec isn't one of 7 codes a frame.
    """
    config, safe, plain = (
        folder / name for name in ("config.json", "model.safetensors", "pytorch_model.bin")
    )
    if not config.exists() or not (safe.exists() or plain.exists()):
        raise MissingRequirement(
            f"{folder}: a SNAC folder has config.json and model.safetensors", where="model"
        )
    settings: dict[str, Any] = json.loads(config.read_text())
    if settings.get("vq_strides") != [4, 2, 1]:
        raise BadInput(
            f"vq_strides {settings.get('vq_strides')}: the 24 kHz codec has 4, 2, 1",
            where="model",
        )
    build: Any = SNAC
    model = build(**settings)
    read: Any = cast("Any", safe_tensors).load_file
    weights: Any = read(safe) if safe.exists() else torch.load(plain, weights_only=True)
    model.load_state_dict(weights)
    return model.eval()


def check_codes(codes: Sequence[int]) -> None:
    """Raises `BadInput` for a code that the codebooks don't have."""
    wrong = next((code for code in codes if not 0 <= code < CODEBOOK), None)
    if wrong is not None:
        raise BadInput(
            f"code {wrong} is not possible; codes are 0 to {CODEBOOK - 1}", where="codes"
        )
