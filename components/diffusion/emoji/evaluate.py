"""Scores the model in the box: names against training pictures, motion words against movement."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from . import common, glyphs, model, movement, scene
from .names import aliases_of
from .pipeline import CLIP_FRAMES, DEFAULT_GUIDANCE, DEFAULT_STEPS, EmojiOutput, EmojiPipeline
from .retrieval import Gallery


def gallery() -> Gallery:
    """All training pictures as drawn."""
    found, pictures = glyphs.read_glyphs()
    frames = [
        scene.render(scene.to_tensor(picture[None]), scene.Pose.still()) for picture in pictures
    ]
    return Gallery([glyph.name for glyph in found], (torch.cat(frames) + 1) / 2)


def pictures(
    pipeline: EmojiPipeline, prompts: list[str], batch: int = 25, **options: Any
) -> Tensor:
    """One picture a prompt, (N, 3, 96, 96) in [0, 1]; prompt number n has seed n."""
    found: list[Tensor] = []
    for start in range(0, len(prompts), batch):
        chunk = prompts[start : start + batch]
        seeds = [torch.Generator().manual_seed(start + i) for i in range(len(chunk))]
        found.append(_drawn(pipeline, prompt=chunk, generator=seeds, **options)[:, 0])
    return torch.cat(found)


def _drawn(pipeline: EmojiPipeline, **options: Any) -> Tensor:
    return cast(EmojiOutput, pipeline(output_type="pt", **options)).frames


def score_names(
    pipeline: EmojiPipeline,
    shown: Gallery,
    names: list[str],
    prompts: list[str],
    sheet: Path | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Share of prompts whose picture is nearest to its own name, and has it among the first 5."""
    drawn = pictures(pipeline, prompts, **options)
    ranks = shown.ranks(drawn, names)
    nearest = shown.nearest(drawn)
    if sheet is not None:
        save_sheet(drawn, sheet)
    wrong = {p: n for p, n, r in zip(prompts, nearest, ranks, strict=True) if r}
    return {
        "count": len(ranks),
        "first": sum(rank == 0 for rank in ranks) / len(ranks),
        "first_5": sum(rank < 5 for rank in ranks) / len(ranks),
        "wrong": wrong,
    }


def score_motion(
    pipeline: EmojiPipeline, count: int, sheet: Path | None = None, **options: Any
) -> dict[str, Any]:
    """Share of clips whose measured movement is the one that the words ask for."""
    asked, followed = Counter[str](), Counter[str]()
    missed: dict[str, list[str]] = {}
    rows: list[Tensor] = []
    for number, (prompt, motion) in enumerate(common.clip_prompts(count)):
        seed = torch.Generator().manual_seed(number)
        clip = _drawn(pipeline, prompt=prompt, num_frames=CLIP_FRAMES, generator=seed, **options)[0]
        shown = movement.motion_shown(movement.measure(clip))
        asked[motion] += 1
        followed[motion] += motion in shown
        if motion not in shown:
            missed[prompt] = sorted(shown)
        rows.append(clip[::2])
    if sheet is not None:
        save_sheet(torch.cat(rows), sheet, columns=CLIP_FRAMES // 2)
    return {
        "count": count,
        "followed": followed.total() / asked.total(),
        "by_motion": {motion: f"{followed[motion]}/{asked[motion]}" for motion in asked},
        "missed": missed,
    }


def save_sheet(frames: Tensor, path: Path, columns: int = 20) -> None:
    """Write frames (N, 3, H, W) in [0, 1] as one picture of rows."""
    rows = [
        np.concatenate(list(np.asarray(part.permute(0, 2, 3, 1) * 255).astype(np.uint8)), axis=1)
        for part in torch.split(frames, columns)
        if len(part) == columns
    ]
    Image.fromarray(np.concatenate(rows)).save(path)


def main() -> None:
    """Print the scores as JSON; `--sheets` also writes what was drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=model.folder())
    parser.add_argument("--names", type=int, default=len(common.COMMON_NAMES))
    parser.add_argument("--aliases", type=int, default=100, help="everyday names to ask for")
    parser.add_argument("--clips", type=int, default=100)
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--guidance", type=float, default=DEFAULT_GUIDANCE)
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--sheets", type=Path, help="folder for pictures of what was drawn")
    given = parser.parse_args()
    pipeline = model.load(given.model, torch.bfloat16 if given.bfloat16 else torch.float32)
    options = {"num_inference_steps": given.steps, "guidance_scale": given.guidance}
    sheet = _sheets(given.sheets)
    scores: dict[str, Any] = {}
    started = time.monotonic()
    if given.names or given.aliases:
        shown = gallery()
        names = list(common.COMMON_NAMES[: given.names])
        scores["names"] = score_names(
            pipeline, shown, names, [f"a {name}" for name in names], sheet("names"), **options
        )
        pairs = [(name, a) for name in common.COMMON_NAMES for a in aliases_of(name)]
        pairs = pairs[: given.aliases]
        scores["aliases"] = score_names(
            pipeline,
            shown,
            [name for name, _ in pairs],
            [f"a {a}" for _, a in pairs],
            sheet("aliases"),
            **options,
        )
    if given.clips:
        scores["motion"] = score_motion(pipeline, given.clips, sheet("clips"), **options)
    scores["seconds"] = round(time.monotonic() - started, 1)
    sys.stdout.write(json.dumps(scores, indent=2) + "\n")


def _sheets(folder: Path | None) -> Callable[[str], Path | None]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)

    def named(name: str) -> Path | None:
        return None if folder is None else folder / f"{name}.png"

    return named


if __name__ == "__main__":
    main()
