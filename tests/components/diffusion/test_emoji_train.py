"""The training's command line: every stage gets the steps that were asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motet.components.diffusion.emoji import train


def test_each_stage_gets_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Any] = []
    monkeypatch.setattr(train, "train", lambda *asked: got.append(asked))
    train.main(["--work", "w", "--out", "o", "--denoiser", "5000", "--planner", "7"])
    ((work, out, steps, start),) = got
    assert (work, out, start) == (Path("w"), Path("o"), None)
    assert steps == train.Steps(denoiser=5000, planner=7)
