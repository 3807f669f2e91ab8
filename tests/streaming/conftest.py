"""A PostgreSQL that the tests of doors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres import own_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server started apart from ours."""
    with own_postgres() as url:
        yield url
