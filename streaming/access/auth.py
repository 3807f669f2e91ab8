"""API keys: made here, kept as hashes, compared in constant time, each with limits of its own."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...components.errors import BadInput, Flaw, MotetError, SpecError
from ..settings import Settings
from .keyfile import StoredKey, digest, read_keys

logger = logging.getLogger("motet")
DEFAULT_KEYS = "keys.json"
"""The key file within the data folder."""
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


def holder(stored: StoredKey) -> Principal:
    """Who a key stands for."""
    return Principal(
        stored.name,
        stored.max_sessions,
        stored.requests_per_minute,
        stored.max_jobs,
        stored.priority,
        stored.priority if stored.max_priority is None else stored.max_priority,
        stored.admin,
        stored.sha256[:KEY_ID_CHARS],
    )


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
        return holder(found)

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
        return replace(holder(found[0]), admin=False)


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


def unasked(settings: Settings) -> Path | None:
    """The file of `motet keys` that goes unread, since only this machine can reach the server; a
    proxy in front would let everyone in. None if there is none, or keys are asked for."""
    given = settings.keys_file or settings.api_keys or settings.admin_keys
    file = settings.data_dir / DEFAULT_KEYS
    return file if settings.is_loopback and not given and file.exists() else None


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file is replaced or written to; None where there is none."""
    if file is None:
        return None
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def bearer(headers: Mapping[str, str]) -> str | None:
    """The key of `Authorization: Bearer KEY` or `api-key: KEY`, None without one."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return headers.get("api-key") or None
