"""`motet check`: whether pipeline files are sound."""

from __future__ import annotations

import argparse

from .output import Commands, write


def add(commands: Commands) -> None:
    """`motet check FILE…`."""
    check = commands.add_parser("check", help="check pipeline files, all faults at once")
    check.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="pipeline files, or names of ready-made ones (voice)",
    )
    check.set_defaults(command=run_check)


def run_check(parsed: argparse.Namespace) -> int:
    """Check files; status 1 if one has faults."""
    from ...components.errors import SpecError
    from ...pipelines import load

    status = 0
    for file in parsed.files:
        try:
            graph = load(file)
        except SpecError as error:
            write(str(error))
            status = 1
        else:
            write(f"{file}: {graph.name} is sound: {', '.join(graph.order)}")
    return status
