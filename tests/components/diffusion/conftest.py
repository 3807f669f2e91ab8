"""Tiny random models, saved once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tinydiffusion
import torch


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: getattr(tinydiffusion, name)(root / name) for name in ("clips", "stable")}


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """The same sums in the same order, wherever it runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
