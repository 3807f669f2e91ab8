"""Folders that belong to one process, and are swept by the next one if it dies without closing."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class OwnedFolder:
    """A private folder below `root`, named `prefix` and something. A lock in it tells that its
    owner lives; making one removes those of the same prefix whose owners are dead.
    """

    def __init__(self, prefix: str, root: Path) -> None:
        _sweep(prefix, root)
        self.path, self._lock = _make(prefix, root)

    def close(self) -> None:
        """Remove it with what is in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make(prefix: str, root: Path) -> tuple[Path, int]:
    """A folder and its lock. One that somebody swept before it was locked is made anew."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path, lock
        os.close(lock)


def _sweep(prefix: str, root: Path) -> None:
    for folder in root.glob(f"{prefix}*"):
        with suppress(OSError):
            handle = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
