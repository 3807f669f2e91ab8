"""`motet embed-check`: whether a quantised model of embeddings is still the original."""

from __future__ import annotations

import argparse

from .output import Commands, write


def add(commands: Commands) -> None:
    """The command."""
    check = commands.add_parser(
        "embed-check", help="compare a quantised or converted embedding model with its original"
    )
    check.add_argument("original", metavar="MODEL", help="catalogue name, folder or hub id")
    check.add_argument("changed", metavar="CHANGED", help="the same, quantised or converted")
    check.add_argument(
        "--dtype",
        default="float32",
        choices=["float32", "bfloat16", "float16"],
        help="what both compute in (float32)",
    )
    check.add_argument("--least", type=float, default=0.99, help="smallest cosine that passes")
    check.add_argument("--texts", metavar="FILE", help="one text a line, instead of its own")
    check.set_defaults(command=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the comparison; status 1 if a text's cosine is below `--least`."""
    from pathlib import Path

    from ...components.embed.compare import SENTENCES, compare
    from ...components.errors import MotetError
    from ...components.models import locate

    texts = list(SENTENCES)
    try:
        if parsed.texts:
            lines = Path(parsed.texts).read_text(encoding="utf-8").splitlines()
            texts = [line for line in lines if line.strip()]
        found = compare(
            locate(parsed.original), locate(parsed.changed), texts, dtype=parsed.dtype, threads=2
        )
    except (MotetError, OSError, UnicodeDecodeError) as error:
        write(str(error))
        return 2
    worst = found.cosines.index(found.least)
    write(f"cosine: least {found.least:.4f} ({texts[worst]!r:.60}), mean {found.mean:.4f}")
    write(f"nearest text unchanged for {found.order:.0%} of {len(texts)} texts")
    passes = found.passes(parsed.least)
    write("it passes" if passes else f"it fails: below {parsed.least}")
    return 0 if passes else 1
