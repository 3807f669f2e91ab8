"""The file of API keys: each as its hash, changed by one at a time and replaced as a whole."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError

from ...components.errors import BadInput, Flaw, SpecError

KEY_PREFIX = "mk-"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is kept: its SHA-256, never itself. Keys are 32 random bytes, so that a fast
    hash is as good as a slow one."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    max_sessions: int | None = None
    requests_per_minute: int | None = None
    max_jobs: int | None = None
    priority: int = 0
    max_priority: int | None = None
    admin: bool = False


_KEYS = TypeAdapter(list[StoredKey])


def digest(key: str) -> str:
    """SHA-256 of a key as hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def read_keys(path: Path) -> list[StoredKey]:
    """Read a key file; none yet is an empty one.

    Raises:
        SpecError: it isn't a key file.
    """
    if not path.exists():
        return []
    try:
        return _KEYS.validate_json(path.read_bytes())
    except ValidationError as error:
        flaws = [
            Flaw(".".join(map(str, one["loc"])), f"is no key file: {one['msg']}")
            for one in error.errors(include_url=False)
        ]
        raise SpecError(flaws, file=str(path)) from error


def add_key(path: Path, name: str, limits: Mapping[str, Any] | None = None) -> str:
    """Make a key, keep its hash in the file (mode 600), and return it, this once.

    Raises:
        BadInput: the name is taken.
    """
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    with _alone(path):
        keys = read_keys(path)
        if any(key.name == name for key in keys):
            raise BadInput(f"there is a key named {name!r} already", where=str(path), param="name")
        write_keys(path, [*keys, StoredKey(name, digest(key), **(limits or {}))])
    return key


def remove_key(path: Path, name: str) -> None:
    """Take a key away.

    Raises:
        BadInput: there is none of that name.
    """
    with _alone(path):
        keys = read_keys(path)
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            known = ", ".join(key.name for key in keys) or "none"
            message = f"no key is named {name!r}; known: {known}"
            raise BadInput(message, where=str(path), param="name")
        write_keys(path, kept)


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Nobody else changes the file meanwhile. The lock lies beside it, as the file is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(path.suffix + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_keys(path: Path, keys: list[StoredKey]) -> None:
    """Replace the key file as a whole, readable by its owner alone."""
    fresh = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump([asdict(key) for key in keys], file, indent=2)
    fresh.replace(path)
