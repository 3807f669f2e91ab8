"""Saves and restores training state so that a killed run goes on where it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import torch


def save(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values; a kill at any moment leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def restore(path: Path) -> dict[str, Any] | None:
    """The saved state, or None where there is none yet; only tensors and plain values load."""
    if not path.is_file():
        return None
    return cast("dict[str, Any]", torch.load(path, map_location="cpu", weights_only=True))
