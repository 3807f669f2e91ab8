"""Tiny random models, saved once."""

from __future__ import annotations

from pathlib import Path

import pytest
import tinydiffusion


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: getattr(tinydiffusion, name)(root / name) for name in ("clips", "stable")}
