"""Texts to vectors on transformers: tokenise, run, pool, normalise, in batches of equal lengths."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from ..errors import BadInput
from ..loading import quiet_loading
from .folder import Layout, Pooling, read_layout

Vector = NDArray[np.float32]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
CHARACTERS = 64
"""Most characters a token stands for: who sends more is told at once, or cut before it is read."""
SLACK = 1.15
"""How much longer than the shortest a text may be to share its batch: padding costs time."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A tokenised text."""

    ids: tuple[int, ...]


class TextEncoder:
    """One model in memory. `encode` wants a thread of its own; `tokenise` may run in several."""

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "cpu",
        dtype: Dtype = "float32",
        threads: int = 1,
        pooling: Pooling | None = None,
        normalise: bool | None = None,
    ) -> None:
        said = read_layout(folder)
        self.layout = Layout(
            pooling or said.pooling,
            said.normalise if normalise is None else normalise,
            said.max_tokens,
            said.prompts,
        )
        self._threads = threads
        self._device = torch.device(device)
        tokenizers: Any = AutoTokenizer
        models: Any = AutoModel
        self._tokenizer: Any = tokenizers.from_pretrained(str(folder), local_files_only=True)
        # A tokenizer that changes between cutting and not cutting can't serve two threads.
        self._cutter: Any = copy.deepcopy(self._tokenizer)
        self._cutter.encode("", truncation=True)
        self._tokenizer.encode("", truncation=False)
        with quiet_loading():
            self._model: Any = models.from_pretrained(
                str(folder),
                local_files_only=True,
                dtype=getattr(torch, fastest(device) if dtype == "auto" else dtype),
                use_safetensors=True,
            )
        self._model.eval().to(self._device)
        self.dimensions = int(self._model.config.hidden_size)
        self.vocabulary = int(self._model.config.vocab_size)

    def tokenise(self, text: str, *, truncate: bool) -> Tokens:
        """The text's tokens, specials included.

        Raises:
            BadInput: it is longer than the model takes, and isn't to be cut.
        """
        most = self.layout.max_tokens
        if truncate:
            text = text[: most * CHARACTERS]
            return Tokens(tuple(self._cutter.encode(text, truncation=True, max_length=most)))
        if len(text) > most * CHARACTERS:
            raise too_long(f"{len(text)} characters", most)
        ids = cast("list[int]", self._tokenizer.encode(text, truncation=False, verbose=False))
        if len(ids) > most:
            raise too_long(f"{len(ids)} tokens", most)
        return Tokens(tuple(ids))

    def encode(self, batch: Sequence[Tokens]) -> list[Vector]:
        """One vector of shape (dim,), float32, for each text, in order."""
        torch.set_num_threads(self._threads)
        order = sorted(range(len(batch)), key=lambda n: len(batch[n].ids))
        vectors: list[Vector | None] = [None] * len(batch)
        start = 0
        while start < len(order):
            end = self._group(batch, order, start)
            group = order[start:end]
            pooled = self._forward([batch[n].ids for n in group])
            for n, vector in zip(group, pooled, strict=True):
                vectors[n] = vector
            start = end
        return cast("list[Vector]", vectors)

    @staticmethod
    def _group(batch: Sequence[Tokens], order: list[int], start: int) -> int:
        """Where the texts that are of about one length with the first end."""
        limit = len(batch[order[start]].ids) * SLACK + 4
        end = start + 1
        while end < len(order) and len(batch[order[end]].ids) <= limit:
            end += 1
        return end

    @torch.inference_mode()
    def _forward(self, rows: list[tuple[int, ...]]) -> Vector:
        longest = max(len(row) for row in rows)
        pad = int(self._tokenizer.pad_token_id or 0)
        ids = torch.tensor([row + (pad,) * (longest - len(row)) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(longest)[None, :] < lengths[:, None]
        # Without padding there is no mask, which lets attention take its fast path.
        whole = bool(mask.all())
        out = self._model(
            input_ids=ids.to(self._device),
            attention_mask=None if whole else mask.to(self._device),
        )
        hidden = out.last_hidden_state.float()
        vectors = pool(hidden, mask.to(self._device), self.layout.pooling)
        if self.layout.normalise:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors.cpu().numpy()


def too_long(length: str, most: int) -> BadInput:
    """What is said of a text that isn't to be cut."""
    return BadInput(
        f"the text has {length}, the model takes {most} tokens; shorten it, or set `truncate` to"
        " true, which leaves out its end",
        where="input",
        param="input",
    )


def fastest(device: str) -> str:
    """bfloat16 where the hardware multiplies it (a GPU, AVX512-BF16, AMX), else float32."""
    if not device.startswith("cpu"):
        return "bfloat16"
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() else ""
    return "bfloat16" if "avx512_bf16" in flags or "amx_bf16" in flags else "float32"


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """(batch, length, dim) and its mask to (batch, dim)."""
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(len(hidden)), mask.sum(1) - 1]
    weights = mask[..., None].to(hidden.dtype)
    if pooling == "max":
        return hidden.masked_fill(weights == 0, float("-inf")).amax(1)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def shorten(vector: Vector, dimensions: int) -> Vector:
    """The first `dimensions` of a Matryoshka embedding, normalised again (Kusupati et al. 2022)."""
    cut = vector[:dimensions]
    return cut / max(float(np.linalg.norm(cut)), 1e-12)
