"""What each saving costs in quality: the same seeds at full precision and under a variant.

PSNR, SSIM (Wang et al. 2004: Gaussian window of 11, sigma 1.5) and, where its weights are at hand,
LPIPS against the pictures that the model makes with nothing saved. They say how near a variant
stays, not which picture is better.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from ..errors import BadInput, MotetError
from .call import defaults, makes_clips
from .engine import Engine
from .lpips import SMALLEST_PX, Lpips, load_lpips
from .options import DiffusionOptions
from .shot import Made, Pixels, Shape, Shot
from .skip import GuidanceOptions

_WINDOW, _SIGMA = 11, 1.5
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2

VARIANTS: dict[str, dict[str, Any]] = {
    "guidance in the first 75 %": {"guidance_skip": {"interval": [0, 0.75]}},
    "guidance in the first 50 %": {"guidance_skip": {"interval": [0, 0.5]}},
    "guidance in the last 50 %": {"guidance_skip": {"interval": [0.5, 1]}},
    "first 50 %, difference reused": {"guidance_skip": {"interval": [0, 0.5], "outside": "reuse"}},
    "guidance every 2nd step": {"guidance_skip": {"every": 2}},
    "until branches agree by 0.99": {"guidance_skip": {"agree": 0.99}},
    "first block cache 0.05": {"cache": {"kind": "first_block", "threshold": 0.05}},
    "first block cache 0.15": {"cache": {"kind": "first_block", "threshold": 0.15}},
    "first block cache 0.15, order 1": {
        "cache": {"kind": "first_block", "threshold": 0.15, "order": 1}
    },
    "timestep cache 0.1": {"cache": {"kind": "timestep", "threshold": 0.1}},
    "attention int8/fp8": {"precision": {"rules": [{"qk": "int8", "pv": "fp8"}]}},
    "attention fp8/fp8": {"precision": {"rules": [{"qk": "fp8", "pv": "fp8"}]}},
    "linear fp8": {"precision": {"rules": [{"linear": "fp8"}]}},
    "linear mxfp4": {"precision": {"rules": [{"linear": "mxfp4"}]}},
}
"""What is measured when nobody says: each saving alone."""


@dataclass(frozen=True, slots=True)
class Result:
    """One variant's means over all pictures. `refused` says why it isn't possible here.

    `lpips` is None where it can't be measured. `rows` and `blocks` are the shares of denoiser rows
    and of blocks that still ran.
    """

    name: str
    psnr_db: float = 0.0
    ssim: float = 0.0
    lpips: float | None = None
    rows: float = 1.0
    blocks: float = 1.0
    ms: float = 0.0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Results, the full-precision one first; `grid` shows the first pictures, a variant a row."""

    results: tuple[Result, ...]
    grid: Pixels

    def table(self) -> str:
        """A Markdown table."""
        head = "| variant | PSNR dB | SSIM | LPIPS | denoiser rows | blocks | ms a picture |\n"
        lines = [head + "|---|---|---|---|---|---|---|"]
        for one in self.results:
            if one.refused:
                lines.append(f"| {one.name} | not possible: {one.refused} | | | | | |")
                continue
            psnr = "same" if one.psnr_db == float("inf") else f"{one.psnr_db:.1f}"
            seen = "" if one.lpips is None else f"{one.lpips:.4f}"
            lines.append(
                f"| {one.name} | {psnr} | {one.ssim:.4f} | {seen} | {one.rows:.0%} |"
                f" {one.blocks:.0%} | {one.ms:.0f} |"
            )
        return "\n".join(lines)


def measure(
    pipe: Any,
    options: DiffusionOptions,
    prompts: Sequence[str],
    *,
    seeds: int = 1,
    frames: int = 1,
    threads: int = 1,
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS,
    told: Callable[[str], None] = lambda name: None,
) -> Report:
    """Make every prompt with every seed, in full and under each variant, one picture at a time.

    Raises:
        BadInput: a variant can't be read, or the model can't make such pictures at all.
    """
    plain = options.model_copy(
        update={"guidance_skip": GuidanceOptions(), "cache": None, "precision": None}
    )
    changes = {name: changed(plain, name, wanted) for name, wanted in variants.items()}
    told("full")
    exact = pictures(pipe, plain, prompts, seeds, frames, threads)
    lpips = load_lpips()
    results = [summary("full", exact, exact, lpips)]
    rows = [[one.pixels[0] for one in exact]]
    for name, under in changes.items():
        told(name)
        try:
            found = pictures(pipe, under, prompts, seeds, frames, threads)
        except MotetError as error:
            results.append(Result(name, refused=error.message))
            continue
        results.append(summary(name, exact, found, lpips))
        rows.append([one.pixels[0] for one in found])
    return Report(tuple(results), grid_of(rows))


def changed(plain: DiffusionOptions, name: str, changes: Mapping[str, Any]) -> DiffusionOptions:
    """The options with a variant's in them.

    Raises:
        BadInput: they are wrong; only the three savings can change.
    """
    known = {"guidance_skip", "cache", "precision"}
    if set(changes) - known:
        raise BadInput(f"a variant sets {', '.join(sorted(known))}", where=name)
    try:
        return DiffusionOptions.model_validate({**plain.model_dump(), **changes})
    except ValidationError as error:
        raise BadInput(str(error), where=name) from error


def pictures(
    pipe: Any,
    options: DiffusionOptions,
    prompts: Sequence[str],
    seeds: int,
    frames: int,
    threads: int,
) -> list[Made]:
    """All pictures under these options.

    Raises:
        MotetError: the first that can't be made.
    """
    engine, known = Engine(pipe, options, threads), defaults(pipe)
    shape = Shape(
        options.width or known.get("width"),
        options.height or known.get("height"),
        frames if makes_clips(pipe) else None,
        options.fps,
        options.steps or known.get("num_inference_steps"),
        options.guidance,
        cache_kind=options.cache.kind if options.cache else None,
    )
    made: list[Made] = []
    for prompt in prompts:
        for seed in range(seeds):
            shot = Shot(prompt, None, seed, shape, options.guidance_skip, options.cache)
            started = time.perf_counter()
            (found,) = engine([shot])
            if isinstance(found, BaseException):
                raise found
            took_ms = (time.perf_counter() - started) * 1000
            made.append(Made(found.pixels, {**found.meta, "ms": took_ms}))
    return made


def summary(
    name: str, exact: Sequence[Made], found: Sequence[Made], lpips: Lpips | None = None
) -> Result:
    """Means of a variant."""
    errors = [np.square(a.pixels.astype(float) - b.pixels).mean() for a, b in _pairs(exact, found)]
    alike = [ssim(a.pixels, b.pixels) for a, b in _pairs(exact, found)]
    metas = [one.meta for one in found]
    total_rows = sum(one["rows_total"] for one in metas)
    total_blocks = sum(one["blocks_total"] for one in metas)
    return Result(
        name,
        # Of the mean error: a mean of decibels is infinite as soon as one picture is the same.
        psnr_db=psnr(float(np.mean(errors))),
        ssim=float(np.mean(alike)),
        lpips=distance(exact, found, lpips),
        rows=1 - sum(one["rows_saved"] for one in metas) / max(total_rows, 1),
        blocks=1 - sum(one["blocks_saved"] for one in metas) / max(total_blocks, 1),
        ms=float(np.mean([one["ms"] for one in metas])),
    )


def distance(exact: Sequence[Made], found: Sequence[Made], lpips: Lpips | None) -> float | None:
    """Mean LPIPS; None without its weights, and of pictures that are too small for it."""
    if lpips is None or min(exact[0].pixels.shape[1:3]) < SMALLEST_PX:
        return None
    return float(np.mean([lpips(a.pixels, b.pixels) for a, b in _pairs(exact, found)]))


def _pairs(exact: Sequence[Made], found: Sequence[Made]) -> list[tuple[Made, Made]]:
    return list(zip(exact, found, strict=True))


def psnr(squared_error: float) -> float:
    """Decibels of a mean squared error of 8-bit pixels; infinite where nothing differs."""
    return float("inf") if squared_error == 0 else 10 * float(np.log10(255**2 / squared_error))


def ssim(a: Pixels, b: Pixels) -> float:
    """Mean structural similarity of two clips, uint8 (frames, height, width, 3), sides from 11."""
    x, y = (_planes(one) for one in (a, b))
    mean_x, mean_y = _blurred(x), _blurred(y)
    var_x = _blurred(x * x) - mean_x**2
    var_y = _blurred(y * y) - mean_y**2
    both = _blurred(x * y) - mean_x * mean_y
    top = (2 * mean_x * mean_y + _C1) * (2 * both + _C2)
    return float((top / ((mean_x**2 + mean_y**2 + _C1) * (var_x + var_y + _C2))).mean())


def _planes(clip: Pixels) -> Tensor:
    """(frames * 3, 1, height, width) in float64."""
    planes = torch.tensor(clip, dtype=torch.float64).movedim(-1, 1)
    return planes.reshape(-1, 1, *planes.shape[-2:])


def _blurred(x: Tensor) -> Tensor:
    place = torch.arange(_WINDOW, dtype=torch.float64) - _WINDOW // 2
    line = torch.exp(-(place**2) / (2 * _SIGMA**2))
    line = line / line.sum()
    across = torch.nn.functional.conv2d(x, line.view(1, 1, 1, -1))
    return torch.nn.functional.conv2d(across, line.view(1, 1, -1, 1))


def grid_of(rows: Sequence[Sequence[Pixels]]) -> Pixels:
    """Pictures side by side, one row of up to 8 for each list."""
    return np.concatenate([np.concatenate(list(row)[:8], axis=1) for row in rows], axis=0)
