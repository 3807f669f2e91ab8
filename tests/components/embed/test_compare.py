"""The quality check of embeddings: the same passes, bfloat16 passes, a damaged copy fails."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from motet.components.embed.compare import SENTENCES, compare
from motet.components.errors import BadInput
from motet.components.models import bundled_path
from motet.streaming.commands import embedcheck

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def original() -> Path:
    return bundled_path("all-minilm-l6-v2")


def damaged(original: Path, folder: Path, levels: int) -> Path:
    """A copy whose linear layers have so few values."""
    shutil.copytree(original, folder)
    file = next(folder.glob("*.safetensors"))
    weights = load_file(file)
    for name, value in weights.items():
        if "encoder.layer" in name and value.ndim == 2:
            step = value.abs().max() / levels
            weights[name] = torch.round(value / step) * step
    save_file(weights, file, metadata={"format": "pt"})
    return folder


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    embedcheck.add(parser.add_subparsers())
    parsed = parser.parse_args(["embed-check", *arguments])
    return int(parsed.command(parsed))


def test_a_model_is_itself_and_bfloat16_is_close(original: Path) -> None:
    same = compare(original, original)
    assert same.least == pytest.approx(1, abs=1e-5)
    assert same.order == 1
    half = compare(original, original, dtype="bfloat16")
    assert 0.99 < half.least < 1


def test_fine_rounding_passes_and_coarse_fails_with_its_status(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = damaged(original, tmp_path / "fine", 1000)
    coarse = damaged(original, tmp_path / "coarse", 3)
    assert run(str(original), str(fine)) == 0
    assert "it passes" in capsys.readouterr().out
    assert run(str(original), str(coarse)) == 1
    told = capsys.readouterr().out
    assert "it fails: below 0.99" in told
    assert "unchanged for 100%" not in told


def test_what_cannot_be_compared_is_said(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match="two texts"):
        compare(original, original, SENTENCES[:1])
    assert run(str(original), str(tmp_path / "none")) == 2
    assert "neither a local path" in capsys.readouterr().out
