"""`motet keys`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Commands, write


def add(commands: Commands) -> None:
    """`motet keys`."""
    command = commands.add_parser("keys", help="make, list and remove API keys")
    command.add_argument(
        "action",
        choices=["add", "list", "remove"],
        help="add prints the new key, this once; list prints the names; remove ends a key and the"
        " ephemeral keys that it made",
    )
    command.add_argument("name", nargs="?", help="of the key to add or remove")
    command.add_argument(
        "--keys-file",
        type=Path,
        default=Path(".motet/keys.json"),
        help="the server's --keys-file (.motet/keys.json); it sees changes as they are made",
    )
    command.add_argument("--max-sessions", type=int, help="its conversations at once")
    command.add_argument("--requests-per-minute", type=int, help="how many it may make")
    command.add_argument("--max-jobs", type=int, help="its unfinished jobs")
    command.add_argument("--priority", type=int, default=0, help="of its requests (0)")
    command.add_argument(
        "--max-priority", type=int, help="the most that a request may ask for (its --priority)"
    )
    command.add_argument("--admin", action="store_true", help="may reload, and run canaries")
    command.set_defaults(command=run_keys)


def run_keys(parsed: argparse.Namespace) -> int:
    """Make, list or remove keys; a key is shown once, when it is made."""
    from ...components.errors import BadInput
    from ..auth import MOST_PRIORITY
    from ..keyfile import add_key, read_keys, remove_key

    if parsed.action == "list":
        for key in read_keys(parsed.keys_file):
            write(f"{key.name} (admin)" if key.admin else key.name)
        return 0
    if not parsed.name:
        raise BadInput(f"`motet keys {parsed.action}` needs a NAME", where="keys", param="name")
    if parsed.action == "remove":
        remove_key(parsed.keys_file, parsed.name)
        return 0
    for name in ("priority", "max_priority"):
        if abs(getattr(parsed, name) or 0) > MOST_PRIORITY:
            possible = f"possible: {-MOST_PRIORITY} to {MOST_PRIORITY}"
            raise BadInput(f"is {getattr(parsed, name)}; {possible}", where=f"--{name}", param=name)
    if parsed.max_priority is not None and parsed.priority > parsed.max_priority:
        raise BadInput(f"{parsed.priority} is above --max-priority", where="--priority")
    limits = (
        "max_sessions",
        "requests_per_minute",
        "max_jobs",
        "priority",
        "max_priority",
        "admin",
    )
    write(add_key(parsed.keys_file, parsed.name, {name: getattr(parsed, name) for name in limits}))
    return 0
