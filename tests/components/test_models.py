"""What a model is for: told by `requirements`, before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.components import registry
from motet.components.base import Setup
from motet.components.models import CATALOGUE, lacking

USES = sorted({use for model in CATALOGUE.values() for use in model.uses})


def requirements(use: str, model: str) -> list[str]:
    if registry.entry(use).missing:
        pytest.skip(f"{use} isn't installed")
    return registry.component_class(use).requirements(Setup("n", model))


@pytest.mark.parametrize("use", [*USES, "asr/hf", "llm/hf", "codec/snac", "vision/encoder"])
@pytest.mark.parametrize("model", CATALOGUE)
def test_a_model_for_other_components_is_refused_with_those_that_fit(use: str, model: str) -> None:
    lacks = requirements(use, model)
    if use in CATALOGUE[model].uses:
        assert not any("is for" in lack for lack in lacks)
        return
    (lack,) = lacks
    assert lack.startswith(f"model {model!r} ")
    assert f"is for {' and '.join(CATALOGUE[model].uses)}; possible for {use}: " in lack
    fitting = [name for name, one in CATALOGUE.items() if use in one.uses]
    assert all(name in lack.split("possible for")[1] for name in fitting)


@pytest.mark.parametrize(
    ("use", "file"),
    [("asr/ct2", "model.bin"), ("embed/text", "config.json"), ("diffusion/image", "model_index")],
)
def test_a_folder_without_the_files_of_such_a_model_is_refused(
    use: str, file: str, tmp_path: Path
) -> None:
    assert f"{tmp_path} has no {file}" in requirements(use, str(tmp_path))[0]


def test_a_folder_with_the_files_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    assert lacking(str(tmp_path), "llm/hf", "config.json") == []
