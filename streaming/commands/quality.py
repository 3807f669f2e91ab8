"""`motet quality`: what each saving of a diffusion pipeline costs in pictures."""

from __future__ import annotations

import argparse
import sys

from .output import Commands


def add(commands: Commands) -> None:
    """`motet quality`; its arguments are read where pictures are made, which imports much."""
    command = commands.add_parser("quality", help="what each saving of a diffusion pipeline costs")
    if "quality" in sys.argv[1:2]:
        from .. import imagesquality

        imagesquality.arguments(command)
    command.set_defaults(command=run_quality)


def run_quality(parsed: argparse.Namespace) -> int:
    """Make the pictures and compare them."""
    from .. import imagesquality

    return imagesquality.run(parsed)
