"""The embedded PostgreSQL as root."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from motet.components.errors import MotetError
from motet.streaming.jobs.embedded import check_way


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder of its owner alone, under folders that are open."""
    folder = Path(tempfile.mkdtemp(prefix="motet-closed-"))
    yield folder
    shutil.rmtree(folder)


def test_a_folder_that_others_can_not_enter_is_named_with_the_cure(closed):
    data = closed / "data" / "postgres"
    data.mkdir(parents=True)
    with pytest.raises(MotetError, match=f"chmod o.x {closed}`") as refused:
        check_way(data, "choose another --data-dir")
    assert "MOTET_DATABASE_URL" in str(refused.value)
    assert closed.stat().st_mode & 0o777 == 0o700, "it is left as it was"
    closed.chmod(0o711)
    check_way(data, "choose another --data-dir")
