"""Ephemeral keys as sealed tokens: a key holds what it stands for, so that every gateway with the
same secret knows it, after a restart too, and nobody else can read or make one."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import secrets
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import BaseModel, ConfigDict, ValidationError

from ...components.errors import BadInput, Flaw, SpecError
from ..realtime.settings import Kind
from ..settings import Settings
from .auth import EPHEMERAL_PREFIX, Unauthorized

logger = logging.getLogger("motet")
FILE = "ephemeral-secret"
"""Where the secret is kept that nobody gave, in the folder of the key file."""

SHORTEST_SECRET = 32
MOST_CHARS = 7_500
"""Keys travel in one header line, of which servers and proxies take 8 KiB."""

MOST_JSON_BYTES = 65_536


class Sealed(BaseModel):
    """What a key stands for. `maker` is the id of the API key that made it ("": nobody's), whose
    name and limits are looked up when the key is used; `priority` is that of the request for it.

    `session` are the wishes that the session begins with; `expires_at` is Unix time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    maker: str
    priority: int
    model: str | None
    kind: Kind
    session: dict[str, Any]
    expires_at: int


class EphemeralKeys:
    """Makes keys and reads them. The first of `given` seals, all of them open, so that a secret can
    be replaced while keys of the old one are out; without any, `file` has one, made when needed.
    """

    def __init__(
        self, given: Sequence[str], file: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self._given = given
        self._file = file
        self._clock = clock
        self._box: MultiFernet | None = None
        self._opening = asyncio.Lock()

    async def make(self, sealed: Sealed) -> str:
        """A new key. Session settings may be private: they are encrypted, not only signed.

        Raises:
            BadInput: the settings are too long for a key.
        """
        text = sealed.model_dump_json().encode()
        key = ""
        if len(text) <= MOST_JSON_BYTES:
            token = (await self._opened()).encrypt(zlib.compress(text, 9))
            key = EPHEMERAL_PREFIX + token.decode().rstrip("=")
        if not 0 < len(key) <= MOST_CHARS:
            raise BadInput(
                f"these settings ({len(text)} bytes of JSON) don't fit into an ephemeral key, which"
                f" holds them and travels in one header of at most {MOST_CHARS} characters; leave"
                " long instructions and tools to a session.update of the session that it begins",
                where="session",
                param="session",
            )
        return key

    async def read(self, key: str) -> Sealed:
        """What a key stands for.

        Raises:
            Unauthorized: it has expired, or wasn't made with a secret of this server's.
        """
        token = key.removeprefix(EPHEMERAL_PREFIX).encode(errors="replace")
        box = await self._opened()
        try:
            text = zlib.decompress(box.decrypt(token + b"=" * (-len(token) % 4)))
            sealed = Sealed.model_validate_json(text)
        except (InvalidToken, zlib.error, ValidationError) as error:
            raise Unauthorized(
                "the ephemeral key is none of this server's: it is damaged, or was made with"
                " another secret",
                where="key",
            ) from error
        if sealed.expires_at <= self._clock():
            raise Unauthorized("the ephemeral key has expired", where="key")
        return sealed

    async def _opened(self) -> MultiFernet:
        async with self._opening:
            if self._box is None:
                found = self._given or [await asyncio.to_thread(self._kept)]
                self._box = MultiFernet([Fernet(derived(secret)) for secret in found])
        return self._box

    def _kept(self) -> str:
        """The secret that nobody gave. Blocks."""
        try:
            return kept_secret(self._file)
        except OSError as error:
            logger.warning(
                "ephemeral keys end with this process: their secret can't be kept at %s (%s); set"
                " MOTET_EPHEMERAL_SECRET",
                self._file,
                error,
            )
            return secrets.token_urlsafe(32)


def ephemeral_keys(settings: Settings) -> EphemeralKeys:
    """The ephemeral keys of a server with these settings.

    Raises:
        SpecError: a secret that is given is too short, or its file can't be read.
    """
    given, where = list(settings.ephemeral_secret), "MOTET_EPHEMERAL_SECRET"
    if settings.ephemeral_secret_file is not None:
        if given:
            why = "and --ephemeral-secret-file exclude each other"
            raise SpecError([Flaw(where, why)])
        where = str(settings.ephemeral_secret_file)
        given = read_secrets(settings.ephemeral_secret_file)
    folder = settings.keys_file.parent if settings.keys_file is not None else settings.data_dir
    file = folder / FILE
    if not given and file.exists():
        where, given = str(file), read_secrets(file)
    shortest = min(map(len, given), default=SHORTEST_SECRET)
    if shortest < SHORTEST_SECRET:
        why = f"a secret needs {SHORTEST_SECRET} random characters or more, got {shortest}"
        raise SpecError([Flaw(where, why)])
    return EphemeralKeys(given, file)


def read_secrets(file: Path) -> list[str]:
    """The secrets in a file, one a line. Blocks.

    Raises:
        SpecError: it can't be read, or holds none.
    """
    try:
        found = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Flaw("", f"the secret can't be read: {error}")], file=str(file)) from error
    if not found:
        raise SpecError([Flaw("", "holds no secret")], file=str(file))
    return found


def derived(secret: str) -> bytes:
    """Fernet's key of a secret."""
    made = HKDF(SHA256(), length=32, salt=None, info=b"motet ephemeral keys")
    return base64.urlsafe_b64encode(made.derive(secret.encode()))


def kept_secret(file: Path) -> str:
    """A secret, made and kept in a file, readable by its owner alone. Of several processes that do
    so at once, one makes it and all have the same. Blocks.

    Raises:
        OSError: it can't be kept.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as out:
            out.write(secrets.token_urlsafe(32) + "\n")
        os.link(fresh, file)
    except FileExistsError:
        logger.debug("another process has made %s", file)
    finally:
        fresh.unlink()
    return file.read_text().strip()
