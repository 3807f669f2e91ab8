"""`motet keys`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Commands, write


def add(commands: Commands) -> None:
    """`motet keys`."""
    command = commands.add_parser("keys", help="make, list and remove API keys")
    command.add_argument("action", choices=["add", "list", "remove"])
    command.add_argument("name", nargs="?")
    command.add_argument("--keys-file", type=Path, default=Path(".motet/keys.json"))
    command.add_argument("--max-sessions", type=int)
    command.add_argument("--requests-per-minute", type=int)
    command.add_argument("--max-jobs", type=int)
    command.set_defaults(command=run_keys)


def run_keys(parsed: argparse.Namespace) -> int:
    """Make, list or remove keys; a key is shown once, when it is made."""
    from ...components.errors import BadInput
    from ..auth import add_key, read_keys, remove_key

    if parsed.action == "list":
        for key in read_keys(parsed.keys_file):
            write(key.name)
        return 0
    if not parsed.name:
        raise BadInput(f"`motet keys {parsed.action}` needs a NAME", where="keys", param="name")
    if parsed.action == "remove":
        remove_key(parsed.keys_file, parsed.name)
        return 0
    limits = ("max_sessions", "requests_per_minute", "max_jobs")
    write(add_key(parsed.keys_file, parsed.name, {name: getattr(parsed, name) for name in limits}))
    return 0
