"""Voices as unit vectors, and where the weights lie that make them; needs no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingRequirement
from ..models import package_folder

Floats = NDArray[np.float32]


def weights_path() -> Path:
    """Where the weights of the installed Resemblyzer lie.

    Raises:
        MissingRequirement: it isn't installed.
    """
    folder = package_folder("resemblyzer")
    path = folder / "pretrained.pt" if folder else None
    if path is None or not path.exists():
        raise MissingRequirement(
            "speaker embeddings need the weights in Resemblyzer:"
            " pip install --no-deps Resemblyzer==0.1.4",
            where="diarize/cluster",
        )
    return path


def unit(vectors: Floats) -> Floats:
    """Vectors scaled to length one along the last axis."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.maximum(length, 1e-9)).astype(np.float32)
