"""The tiny random model that llm/hf is tested on, saved once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tinymodels import save


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Its folder, and the model itself as transformers has it."""
    folder = tmp_path_factory.mktemp("llama")
    return folder, save("llama", folder)
