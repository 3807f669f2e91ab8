"""Which GPUs a replica sees: whole ones for itself, fractions packed together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...components.errors import MissingRequirement

_NVIDIA = Path("/proc/driver/nvidia/gpus")


def visible() -> tuple[str, ...]:
    """The GPUs that this process may use, by index or id; what CUDA_VISIBLE_DEVICES says wins."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    if said is not None:
        return tuple(part.strip() for part in said.split(",") if part.strip())
    found = len(list(_NVIDIA.iterdir())) if _NVIDIA.is_dir() else 0
    return tuple(str(index) for index in range(found))


class Devices:
    """Hands out shares of GPUs and takes them back. A fraction is a promise, not a fence."""

    def __init__(self, names: Sequence[str]) -> None:
        self._free = dict.fromkeys(names, 1.0)
        self._taken: dict[str, list[tuple[str, float]]] = {}

    def take(self, owner: str, gpus: float) -> dict[str, str]:
        """The environment that shows `owner` its share; without GPUs, none are visible.

        Raises:
            MissingRequirement: there isn't so much left.
        """
        parts = self._parts(owner, gpus)
        for name, share in parts:
            self._free[name] -= share
        self._taken[owner] = parts
        return {"CUDA_VISIBLE_DEVICES": ",".join(name for name, _ in parts)}

    def _parts(self, owner: str, gpus: float) -> list[tuple[str, float]]:
        if gpus <= 0:
            return []
        share = gpus if gpus < 1 else 1.0
        count = 1 if gpus < 1 else round(gpus)
        # The fullest that still fits, so that whole ones stay whole.
        order = sorted(self._free, key=lambda name: self._free[name])
        fitting = [name for name in order if self._free[name] >= share - 1e-9]
        if len(fitting) < count:
            left = ", ".join(f"{name}: {free:g}" for name, free in self._free.items()) or "none"
            raise MissingRequirement(f"needs {gpus:g} GPUs; free here: {left}", where=owner)
        return [(name, share) for name in fitting[:count]]

    def give_back(self, owner: str) -> None:
        """Take back what `owner` had."""
        for name, share in self._taken.pop(owner, []):
            self._free[name] += share
