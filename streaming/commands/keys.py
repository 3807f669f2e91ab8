"""`motet keys`."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from .output import Commands, Group, write

LIMITS = ("max_sessions", "requests_per_minute", "max_jobs", "priority", "max_priority", "admin")


def add(commands: Commands) -> None:
    """`motet keys add|list|remove`."""
    command = commands.add_parser("keys", help="make, list and remove API keys")
    actions = Group(command, "ACTION")
    made = actions.add_parser("add", help="make a key and print it, this once")
    listed = actions.add_parser("list", help="the names of the keys, and their limits")
    removed = actions.add_parser("remove", help="end a key and the ephemeral keys that it made")
    for one, run in ((made, run_add), (listed, run_list), (removed, run_remove)):
        if one is not listed:
            one.add_argument("name", metavar="NAME", help="of the key")
        one.add_argument(
            "--keys-file",
            type=Path,
            default=Path(".motet/keys.json"),
            help="the server's --keys-file (.motet/keys.json); it sees changes as they are made",
        )
        one.set_defaults(command=run)
    made.add_argument("--max-sessions", type=int, help="its conversations at once")
    made.add_argument("--requests-per-minute", type=int, help="how many it may make")
    made.add_argument("--max-jobs", type=int, help="its unfinished jobs")
    made.add_argument("--priority", type=int, default=0, help="of its requests (0)")
    made.add_argument(
        "--max-priority", type=int, help="the most that a request may ask for (its --priority)"
    )
    made.add_argument("--admin", action="store_true", help="may reload, and run canaries")


def run_list(parsed: argparse.Namespace) -> int:
    """A key a line: its name, and what was set when it was made."""
    from ..access.keyfile import StoredKey, read_keys

    usual = {one.name: one.default for one in fields(StoredKey)}
    for key in read_keys(parsed.keys_file):
        limits = {name: getattr(key, name) for name in LIMITS if getattr(key, name) != usual[name]}
        told = ["admin" if value is True else f"{name} {value}" for name, value in limits.items()]
        write(f"{key.name} ({', '.join(told)})" if told else key.name)
    return 0


def run_remove(parsed: argparse.Namespace) -> int:
    """End a key."""
    from ..access.keyfile import remove_key

    remove_key(parsed.keys_file, parsed.name)
    return 0


def run_add(parsed: argparse.Namespace) -> int:
    """Make a key, which is shown this once."""
    from ...components.errors import BadInput
    from ..access.auth import MOST_PRIORITY
    from ..access.keyfile import add_key

    for name in ("priority", "max_priority"):
        if abs(getattr(parsed, name) or 0) > MOST_PRIORITY:
            possible = f"possible: {-MOST_PRIORITY} to {MOST_PRIORITY}"
            raise BadInput(f"is {getattr(parsed, name)}; {possible}", where=f"--{name}", param=name)
    for name in ("max_sessions", "requests_per_minute", "max_jobs"):
        if (getattr(parsed, name) or 0) < 0:
            option = f"--{name.replace('_', '-')}"
            raise BadInput(f"is {getattr(parsed, name)}; at least 0", where=option, param=name)
    if parsed.max_priority is not None and parsed.priority > parsed.max_priority:
        raise BadInput(f"{parsed.priority} is above --max-priority", where="--priority")
    write(add_key(parsed.keys_file, parsed.name, {name: getattr(parsed, name) for name in LIMITS}))
    return 0
