"""The measures of quality against slow ones, and the report on a small model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tinydiffusion
from PIL import Image

from motet.components.diffusion.load import load_pipeline
from motet.components.diffusion.options import DiffusionOptions
from motet.components.diffusion.quality import measure, psnr, ssim, summary
from motet.components.diffusion.shot import Made
from motet.components.errors import BadInput
from motet.streaming import cli

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tinydiffusion.clips(tmp_path_factory.mktemp("model"))


def slow_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Window by window, straight from the definition."""
    place = np.arange(11) - 5
    line = np.exp(-(place**2) / (2 * 1.5**2))
    window = np.outer(line, line) / np.outer(line, line).sum()
    found: list[float] = []
    for top in range(a.shape[0] - 10):
        for left in range(a.shape[1] - 10):
            x, y = (one[top : top + 11, left : left + 11].astype(float) for one in (a, b))
            mx, my = (window * x).sum(), (window * y).sum()
            vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
            both = (window * (x - mx) * (y - my)).sum()
            upper = (2 * mx * my + 2.55**2) * (2 * both + 7.65**2)
            found.append(upper / ((mx**2 + my**2 + 2.55**2) * (vx + vy + 7.65**2)))
    return float(np.mean(found))


def test_ssim_is_the_definition() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (16, 20), dtype=np.uint8)
    b = np.clip(a + rng.normal(0, 30, a.shape), 0, 255).astype(np.uint8)
    clips = [np.repeat(one[None, :, :, None], 3, axis=3) for one in (a, b)]
    assert ssim(clips[0], clips[1]) == pytest.approx(slow_ssim(a, b), abs=1e-9)
    assert ssim(clips[0], clips[0]) == pytest.approx(1)
    assert psnr(255.0**2) == 0
    assert psnr(1.0) == pytest.approx(48.1308, abs=1e-4)


def test_a_report_tells_cost_and_saving(folder: Path) -> None:
    options = DiffusionOptions(width=32, height=32, steps=6)
    variants = {
        "same": {"guidance_skip": {"interval": [0, 1]}},
        "half": {"guidance_skip": {"interval": [0, 0.5]}},
        "cached": {"cache": {"threshold": 10}},
        "low": {"precision": {"rules": [{"linear": "mxfp4"}]}},
    }
    report = measure(
        load_pipeline(str(folder), options), options, ["a", "b"], seeds=2, variants=variants
    )
    by_name = {one.name: one for one in report.results}
    assert by_name["full"].psnr_db == by_name["same"].psnr_db == float("inf")
    assert by_name["half"].rows == 0.75
    assert by_name["cached"].blocks < 0.8
    assert by_name["low"].psnr_db < 60
    assert report.grid.shape == (5 * 32, 4 * 32, 3)
    table = report.table().splitlines()
    assert len(table) == 2 + 5
    assert table[4].startswith("| half | ")
    assert " | 75% | 100% | " in table[4]
    with pytest.raises(BadInput, match="a variant sets"):
        measure(load_pipeline(str(folder), options), options, ["a"], variants={"x": {"steps": 3}})


def test_what_a_model_cannot_do_stands_in_the_table(tmp_path: Path) -> None:
    folder = tinydiffusion.stable(tmp_path / "model")
    options = DiffusionOptions(width=32, height=32, steps=2)
    variants = {"cached": {"cache": {"threshold": 1}}}
    report = measure(load_pipeline(str(folder), options), options, ["a"], variants=variants)
    assert "not possible: UNet2DConditionModel" in report.table()


def test_the_command_writes_table_and_grid(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        f"name: p\nnodes:\n  image:\n    use: diffusion/image\n    model: {folder}\n"
        "    options: {width: 32, height: 32, steps: 2}\nedges: [input -> image -> output]\n"
    )
    (tmp_path / "v.yaml").write_text("half: {guidance_skip: {interval: [0, 0.5]}}\n")
    out = tmp_path / "out"
    words = ["--prompt", "a", "--variants", str(tmp_path / "v.yaml"), "--out", str(out)]
    parsed = cli.parser().parse_args(["quality", str(tmp_path / "p.yaml"), *words])
    assert parsed.command(parsed) == 0
    assert "| half |" in (out / "quality.md").read_text()
    assert Image.open(out / "grid.png").size == (32, 64)


def test_one_picture_that_is_the_same_does_not_hide_another() -> None:
    black, white = (Made(np.full((1, 16, 16, 3), value, np.uint8), META) for value in (0, 255))
    found = summary("x", [black, black], [black, white])
    assert found.psnr_db == pytest.approx(3.0103, abs=1e-4)


META = {"rows_total": 1, "rows_saved": 0, "blocks_total": 0, "blocks_saved": 0, "ms": 1.0}
