"""Keys and values of prompts' beginnings, kept for whoever comes with the same one.

A beginning is kept in blocks of equal length. A block is found by its tokens and all before them
(and by the adapter), so that prompts that share a system prompt share its blocks, and a turn finds
what the turns before it left. Places of a picture count by what the picture is.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import DynamicCache

from ..vlm import Picture

Marks = NDArray[np.int64]
Layers = Sequence[tuple[torch.Tensor, torch.Tensor]]
Block = tuple[torch.Tensor, torch.Tensor]


def marks_of(ids: Sequence[int], pictures: Sequence[Picture], image_token: int) -> Marks:
    """What stands at each place of a prompt: a token, or below zero a row of a picture."""
    marks = np.array(ids, np.int64)
    if pictures:
        rows = [digest(picture) + np.arange(picture.tokens) for picture in pictures]
        marks[marks == image_token] = -np.concatenate(rows)
    return marks


def digest(picture: Picture) -> int:
    """A number below 2 ** 62 for what a picture is."""
    told = f"{picture.grid} {picture.tiles} {picture.dtype} {picture.rows.shape}"
    found = hashlib.blake2b(told.encode(), digest_size=8)
    found.update(np.ascontiguousarray(picture.rows).data)
    return 1 + int.from_bytes(found.digest(), "big") % 2**62


class PrefixCache:
    """Blocks of `block` tokens, at most `limit_bytes` of them; what was used last stays longest.

    Not thread-safe. Blocks lie where the model computes.
    """

    def __init__(self, limit_bytes: int, block: int) -> None:
        self._limit = limit_bytes
        self._block = block
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()
        self.size_bytes = 0

    def names(self, marks: Marks, adapter: str | None) -> list[bytes]:
        """The names of a prompt's whole blocks, in order."""
        name = hashlib.blake2b((adapter or "").encode(), digest_size=16).digest()
        names: list[bytes] = []
        for end in range(self._block, len(marks) + 1, self._block):
            part = marks[end - self._block : end].tobytes()
            name = hashlib.blake2b(name + part, digest_size=16).digest()
            names.append(name)
        return names

    def find(self, marks: Marks, adapter: str | None) -> tuple[int, DynamicCache]:
        """How many tokens from the beginning are known, never all of them, and their cache."""
        cache: Any = DynamicCache()
        found: list[Block] = []
        names = self.names(marks[:-1], adapter) if self._limit else []
        for name in names:
            if name not in self._blocks:
                break
            found.append(self._blocks[name])
        self._touch(names[: len(found)])
        if found:
            keys, values = (torch.cat(parts, dim=-2) for parts in zip(*found, strict=True))
            for layer in range(len(keys)):
                cache.update(keys[layer, None], values[layer, None], layer)
        return len(found) * self._block, cache

    def keep(self, marks: Marks, adapter: str | None, layers: Layers) -> None:
        """Keep the whole blocks of a sequence; keys and values are (heads, length, dim) each."""
        if not self._limit:
            return
        names = self.names(marks, adapter)
        for n, name in enumerate(names):
            if name not in self._blocks:
                part = slice(n * self._block, (n + 1) * self._block)
                keys = torch.stack([keys[:, part] for keys, _ in layers])
                values = torch.stack([values[:, part] for _, values in layers])
                self._blocks[name] = keys, values
                self.size_bytes += keys.nbytes + values.nbytes
        self._touch(names)
        while self.size_bytes > self._limit:
            _, (keys, values) = self._blocks.popitem(last=False)
            self.size_bytes -= keys.nbytes + values.nbytes

    def _touch(self, names: list[bytes]) -> None:
        """Note a use; a beginning outlives what follows it, which is of no use without it."""
        for name in reversed(names):
            self._blocks.move_to_end(name)


def layers_of(cache: Any, row: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A row's keys and values, by layer."""
    return [(layer.keys[row], layer.values[row]) for layer in cache.layers]
