"""`motet quality`: what each saving of a diffusion pipeline costs in pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Commands


def add(commands: Commands) -> None:
    """`motet quality`."""
    command = commands.add_parser("quality", help="what each saving of a diffusion pipeline costs")
    command.add_argument("pipeline", nargs="?", default="images", help="pipeline file (images)")
    command.add_argument("--prompt", action="append", help="may be repeated")
    command.add_argument("--seeds", type=int, default=1, help="pictures per prompt (1)")
    command.add_argument("--steps", type=int, help="steps (the pipeline's)")
    command.add_argument(
        "--variants", type=Path, help="YAML: name -> {guidance_skip, cache, precision}"
    )
    command.add_argument("--out", type=Path, default=Path("quality"), help="folder of the report")
    command.set_defaults(command=run_quality)


def run_quality(parsed: argparse.Namespace) -> int:
    """Make the pictures and compare them."""
    from ..images.quality import run

    return run(parsed)
