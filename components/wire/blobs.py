"""Large payloads between two processes on one host: files in shared memory, named on the stream.

The sender writes a file into a folder of its own, the receiver maps it and removes it at once, so
the memory lives exactly as long as the array that looks at it.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from ..errors import BadInput
from .folders import OwnedFolder

_PREFIX = "motet-shm-"
_NAME = re.compile(r"motet-shm-[A-Za-z0-9_]+/[0-9]+")


def shared_root() -> Path:
    """Where files live in memory here; the temporary folder where there's no such place."""
    root = Path("/dev/shm")
    return root if root.is_dir() and os.access(root, os.W_OK) else Path(tempfile.gettempdir())


class BlobStore:
    """Puts payloads into shared memory, and takes those of the peer; small ones aren't worth it.

    Only for peers that both sides trust: whoever can name a file here can read it.
    """

    def __init__(self, *, threshold_bytes: int = 64 * 1024, root: Path | None = None) -> None:
        self.threshold_bytes = threshold_bytes
        self.root = root or shared_root()
        self._owned = OwnedFolder(_PREFIX, self.root)
        self.folder = self._owned.path
        self._count = 0

    def sees(self, folder: str) -> bool:
        """Whether this is the folder of a peer that shares this machine's memory."""
        return _NAME.fullmatch(f"{folder}/0") is not None and (self.root / folder / "lock").exists()

    def put(self, data: memoryview) -> str | None:
        """Write a payload and return its name; None when the memory is full."""
        self._count += 1
        path = self.folder / str(self._count)
        try:
            _write(path, data)
        except OSError:
            path.unlink(missing_ok=True)
            return None
        return f"{self.folder.name}/{self._count}"

    def take(self, name: str, length: int) -> memoryview:
        """Map a payload of the peer, read-only, and remove its name.

        Raises:
            BadInput: the name isn't one of ours, the file is gone or of another length.
        """
        path = self._path(name)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"shared payload {name!r} is gone: {error.strerror}") from error
        try:
            size = os.fstat(handle).st_size
            if size != length or not length:
                raise BadInput(f"shared payload {name!r} has {size} bytes, {length} were announced")
            return memoryview(mmap.mmap(handle, length, access=mmap.ACCESS_READ))
        finally:
            os.close(handle)
            path.unlink(missing_ok=True)

    def discard(self, name: str) -> None:
        """Remove a payload that nobody wants any more."""
        with suppress(BadInput):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name!r} is no shared payload; expected {_PREFIX}FOLDER/NUMBER")
        return self.root / name

    def close(self) -> None:
        """Remove what the peer hasn't taken; arrays that it has mapped stay whole. Idempotent."""
        self._owned.close()


def _write(path: Path, data: memoryview) -> None:
    """Write by `write`, not through a mapping: a full memory then is an error, not a signal."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        flat = data.cast("B")
        done = 0
        while done < flat.nbytes:
            done += os.write(handle, flat[done:])
    finally:
        os.close(handle)
