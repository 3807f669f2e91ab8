"""`motet reload`: a running server reads its pipeline files again, and loses no session by it."""

from __future__ import annotations

import argparse

from .output import Commands, write
from .remote import add_address, ask


def add(commands: Commands) -> None:
    """`motet reload`."""
    command = commands.add_parser("reload", help="serve what the pipeline files hold now")
    command.add_argument("pipelines", nargs="*", metavar="PIPELINE", help="default: all")
    command.add_argument("--fresh", action="store_true", help="load also what hasn't changed")
    command.add_argument(
        "--drain-s", type=float, help="how long old sessions may last (as any session)"
    )
    add_address(command)
    command.set_defaults(command=run_reload)


def run_reload(parsed: argparse.Namespace) -> int:
    """Wait until the new versions are loaded; on any fault the old ones stay."""
    body = {"pipelines": parsed.pipelines, "fresh": parsed.fresh, "drain_s": parsed.drain_s}
    answer = ask(parsed, "/v1/admin/reload", method="POST", body=body, timeout_s=None)
    for name, told in answer["pipelines"].items():
        write(f"{name}: {told}")
    return 0
