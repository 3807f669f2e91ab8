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
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import torch as safe_tensors
from snac import SNAC  # pyright: ignore[reportMissingTypeStubs]

from ..errors import BadInput, MissingRequirement
from .upsampler import Upsampler, fold

CODES = 7
# Which of a frame's codes, in the order that speech models emit them, belong to each layer.
LAYERS = ((0,), (1, 4), (2, 3, 5, 6))
CODEBOOK = 4096


@dataclass(frozen=True, slots=True)
class Job:
    """A window of a stream: its frames of 7 codes, the number of the first, the stream's seed, and
    which of the frames' sound is wanted; `keep_to` None is all from `keep_from` on."""

    frames: tuple[tuple[int, ...], ...]
    first: int
    seed: int
    keep_from: int = 0
    keep_to: int | None = None

    @property
    def kept(self) -> tuple[int, int]:
        """Where the wanted frames begin and end within the window."""
        return self.keep_from, len(self.frames) if self.keep_to is None else self.keep_to

    @property
    def middle(self) -> bool:
        """Whether it is one of the many that keep the frame in their middle. They have one shape;
        a stream's few others aren't worth a compilation."""
        first, last = self.kept
        return 0 < first == last - 1 == len(self.frames) - last

    @property
    def shape(self) -> tuple[int, int, int]:
        """What windows that are decoded together have in common."""
        return len(self.frames), *self.kept


class SnacDecoder:
    """One decoder in memory. Not thread-safe: give it a thread of its own."""

    def __init__(
        self, folder: Path, *, device: str = "cpu", threads: int = 1, compiled: bool = False
    ) -> None:
        self._device = torch.device(device)
        self._threads = threads
        model = load(folder)
        self.rate_hz = int(model.sampling_rate)
        self._latents = int(model.vq_strides[0])
        self.samples_per_frame = int(model.hop_length) * self._latents
        upsampler = Upsampler(model.decoder)
        fold(model.quantizer)
        self._from_codes: Any = model.quantizer.to(self._device).from_codes
        self._rates = list(accumulate(upsampler.strides, mul, initial=self._latents))[1:]
        self._upsample: Any = upsampler.to(self._device)
        compiler: Any = cast("Any", torch).compile
        self._compiled: Any = compiler(upsampler) if compiled else None

    @torch.inference_mode()
    def decode(self, jobs: Sequence[Job]) -> list[NDArray[np.float32]]:
        """Samples in -1..1 of shape (kept frames * samples_per_frame,) for windows of one shape."""
        torch.set_num_threads(self._threads)
        codes = torch.tensor([job.frames for job in jobs], dtype=torch.long)
        layers = [codes[:, :, list(layer)].flatten(1).to(self._device) for layer in LAYERS]
        noises = [noise.to(self._device) for noise in self._noise(jobs)]
        first, last = jobs[0].kept
        keep = (first * self.samples_per_frame, last * self.samples_per_frame)
        run = self._compiled if self._compiled is not None and jobs[0].middle else self._upsample
        sound = run(self._from_codes(layers), noises, keep)
        return list(sound[:, 0].float().cpu().numpy())

    def warm_up(self, context: int) -> None:
        """Decode silence. Where the decoder is compiled this takes minutes: for one stream, for
        two, and, when it has seen that batches differ, for any number."""
        silence = ((0,) * CODES,) * (2 * context + 1)
        for count in (1, 2, 3) if self._compiled is not None else (1,):
            self.decode([Job(silence, 0, 0, context, context + 1)] * count)

    def _noise(self, jobs: Sequence[Job]) -> Iterator[torch.Tensor]:
        """For each block, (batch, 1, frames * its rate) normals."""
        total = sum(self._rates)
        rows = [
            torch.stack([frame_noise(job.seed, job.first + n, total) for n in range(job.shape[0])])
            for job in jobs
        ]
        drawn = torch.stack(rows)
        at = 0
        for rate in self._rates:
            yield drawn[:, :, at : at + rate].flatten(1)[:, None]
            at += rate


def frame_noise(seed: int, frame: int, count: int) -> torch.Tensor:
    """The normals of one frame of one stream: the same whenever and wherever they are drawn."""
    mixed = (seed * 0x9E3779B97F4A7C15 + frame * 0xBF58476D1CE4E5B9) & (2**63 - 1)
    generator = torch.Generator().manual_seed(mixed)
    return torch.randn(count, generator=generator)


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
    if settings.get("attn_window_size") is not None:
        raise BadInput("attn_window_size is set: the 24 kHz codec has no attention", where="model")
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
