"""API keys: made here, kept as hashes, compared in constant time, each with limits of its own."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..components.errors import BadInput, Flaw, MotetError, SpecError
from .settings import Settings

logger = logging.getLogger("motet")
DEFAULT_KEYS = "keys.json"
"""The key file within the data folder."""
KEY_PREFIX = "mk-"
EPHEMERAL_PREFIX = "ek_"
PRIORITY_HEADER = "motet-priority"
MOST_PRIORITY = 100
KEY_ID_CHARS = 32


class Unauthorized(MotetError):
    """No key, or none that is known."""

    code = "invalid_api_key"


class NotAdmin(MotetError):
    """The key may not change what the server serves."""

    code = "permission_denied"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: the key's name, and its limits (None: the server's). Anonymous is `name` "".

    `priority` is that of this request, at most `max_priority` (None: any). `admin` may change what
    is served. `key_id` tells keys apart, those of one name too; "" is no key.
    """

    name: str = ""
    max_sessions: int | None = None
    requests_per_minute: int | None = None
    max_jobs: int | None = None
    priority: int = 0
    max_priority: int | None = None
    admin: bool = False
    key_id: str = ""

    def asking(self, priority: str | None) -> Principal:
        """The same with the priority that a request names, None if it names none.

        Raises:
            BadInput: it isn't one, or is above what the key may have.
        """
        return self if priority is None else replace(self, priority=self.allowed(priority))

    def allowed(self, priority: str | int) -> int:
        """A priority that this key may have.

        Raises:
            BadInput: it isn't one, or is above that.
        """
        most = MOST_PRIORITY if self.max_priority is None else self.max_priority
        possible = f"possible: {-MOST_PRIORITY} to {most}"
        try:
            given = int(priority)
        except ValueError:
            given = most + 1
        if not -MOST_PRIORITY <= given <= most:
            raise BadInput(
                f"is {priority!r:.20}; {possible}", where="priority", param=PRIORITY_HEADER
            )
        return given


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is kept: its SHA-256, never itself. Keys are 32 random bytes, so that a fast
    hash is as good as a slow one."""

    name: str
    sha256: str
    max_sessions: int | None = None
    requests_per_minute: int | None = None
    max_jobs: int | None = None
    priority: int = 0
    max_priority: int | None = None
    admin: bool = False

    def principal(self) -> Principal:
        """Who this key stands for."""
        return Principal(
            self.name,
            self.max_sessions,
            self.requests_per_minute,
            self.max_jobs,
            self.priority,
            self.priority if self.max_priority is None else self.max_priority,
            self.admin,
            self.sha256[:KEY_ID_CHARS],
        )


def digest(key: str) -> str:
    """SHA-256 of a key as hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


class KeyRing:
    """The keys that a server knows. Empty and not required: everybody is anonymous.

    Those of `file` are read again when it changes, so that a key that is removed is refused from
    the next request on; while it can't be read, the last that could be are good.
    """

    def __init__(self, keys: list[StoredKey], *, required: bool, file: Path | None = None) -> None:
        self._fixed = keys
        self._needed = required
        self._file = file
        self._seen = _stamp(file)
        self._keys = keys + (read_keys(file) if file is not None else [])

    @property
    def required(self) -> bool:
        """Whether a request needs a key."""
        return self._needed or bool(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def _refresh(self) -> None:
        now = _stamp(self._file)
        if self._file is None or now == self._seen:
            return
        self._seen = now
        try:
            self._keys = self._fixed + read_keys(self._file)
        except (SpecError, OSError) as error:
            logger.error("the keys stay as they were: %s", error)
        # A file emptied by `motet keys remove` opens no door that needed keys before.
        self._needed = True

    def check(self, key: str | None) -> Principal:
        """Who holds `key`. Compares with every known key, whichever fits, in constant time.

        Raises:
            Unauthorized: a key is needed, and this is none or unknown.
        """
        self._refresh()
        if not self.required:
            return Principal(admin=True)
        if not key:
            raise Unauthorized("an API key is needed: Authorization: Bearer KEY", where="key")
        asked = digest(key)
        found: StoredKey | None = None
        for stored in self._keys:
            if hmac.compare_digest(stored.sha256, asked):
                found = stored
        if found is None:
            hint = "; ephemeral keys open /v1/realtime alone"
            why = hint if key.startswith(EPHEMERAL_PREFIX) else ""
            raise Unauthorized(f"the API key is unknown{why}", where="key")
        return found.principal()

    def again(self, key_id: str) -> Principal:
        """Who held the key of that id when it was checked, as they may be now; never an admin.

        Raises:
            Unauthorized: the key is gone, or there was none and one is needed now.
        """
        self._refresh()
        if not key_id and not self.required:
            return Principal()
        found = [one for one in self._keys if key_id and one.sha256[:KEY_ID_CHARS] == key_id]
        if not found:
            raise Unauthorized("the API key that made the ephemeral key is gone", where="key")
        return replace(found[0].principal(), admin=False)


def load_keys(settings: Settings) -> KeyRing:
    """The keys of the key file and of `MOTET_API_KEYS`.

    Beyond this machine the file that `motet keys` writes to by itself is read where none is named.

    Raises:
        SpecError: the file is damaged, or the server listens beyond this machine without a key.
    """
    keys = [
        StoredKey(f"{kind}-{n}", digest(key), max_priority=MOST_PRIORITY, admin=admin)
        for kind, given, admin in (
            ("environment", settings.api_keys, False),
            ("admin", settings.admin_keys, True),
        )
        for n, key in enumerate(given, 1)
    ]
    file = settings.keys_file
    if file is None and not settings.is_loopback:
        file = settings.data_dir / DEFAULT_KEYS
    ring = KeyRing(keys, required=not settings.is_loopback, file=file)
    if not ring and not settings.is_loopback:
        raise SpecError(
            [
                Flaw(
                    "host",
                    f"{settings.host!r} is reachable from other machines, so a key is needed:"
                    f" `motet keys add NAME --keys-file {file}` makes one, or set MOTET_API_KEYS",
                )
            ]
        )
    return ring


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file is replaced or written to; None where there is none."""
    if file is None:
        return None
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def read_keys(path: Path) -> list[StoredKey]:
    """Read a key file; none yet is an empty one.

    Raises:
        SpecError: it isn't a key file.
    """
    if not path.exists():
        return []
    try:
        return [StoredKey(**entry) for entry in json.loads(path.read_text())]
    except (ValueError, TypeError) as error:
        raise SpecError([Flaw("", f"is no key file: {error}")], file=str(path)) from error


def add_key(path: Path, name: str, limits: Mapping[str, Any] | None = None) -> str:
    """Make a key, keep its hash in the file (mode 600), and return it, this once.

    Raises:
        BadInput: the name is taken.
    """
    keys = read_keys(path)
    if any(key.name == name for key in keys):
        raise BadInput(f"there is a key named {name!r} already", where=str(path), param="name")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    write_keys(path, [*keys, StoredKey(name, digest(key), **(limits or {}))])
    return key


def remove_key(path: Path, name: str) -> None:
    """Take a key away.

    Raises:
        BadInput: there is none of that name.
    """
    keys = read_keys(path)
    kept = [key for key in keys if key.name != name]
    if len(kept) == len(keys):
        known = ", ".join(key.name for key in keys) or "none"
        raise BadInput(f"no key is named {name!r}; known: {known}", where=str(path), param="name")
    write_keys(path, kept)


def write_keys(path: Path, keys: list[StoredKey]) -> None:
    """Replace the key file as a whole, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump([asdict(key) for key in keys], file, indent=2)
    fresh.replace(path)


def bearer(headers: Mapping[str, str]) -> str | None:
    """The key of `Authorization: Bearer KEY` or `api-key: KEY`, None without one."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return headers.get("api-key") or None
