"""PostgreSQL for jobs: any server by its URL, or one embedded in a package, started when needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from procrastinate import App, PsycopgConnector
from psycopg.abc import QueryNoTemplate
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from ...components.errors import MotetError
from ..operate.upkeep import Watch
from .embedded import Embedded
from .schema import QUEUE, TABLES, VERSION

log = logging.getLogger("motet.jobs")

Connection = psycopg.AsyncConnection[DictRow]
Kind = TypeVar("Kind", bound=psycopg.AsyncConnection[Any])
Params = Sequence[Any] | Mapping[str, Any] | None

_LOCK = 0x6D6F7465
_POOL = 12
_PATIENCE_S = 10.0
_AWAY_PATIENCE_S = 3.0
_RECONNECT_S = 3.0  # tried longer, the pauses grow to minutes; who asks next has it tried again
_WATCH_S = 1.0


_BY_INDEX: LiteralString = (
    "SET enable_sort = off; SET enable_seqscan = off; SET enable_bitmapscan = off"
)
"""Every query has its index, Procrastinate's too. The planner, which has no statistics of a table
that has just grown, would rather read and sort all of it, for each job that is fetched."""


class CheckedPool(AsyncConnectionPool[Kind]):
    """A pool of which a failure has all connections checked, in place of a check before every use,
    which would double the round trips. While the server is away, who asks waits less long."""

    _away = False

    @asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool's own signature
    ) -> AsyncGenerator[Kind]:
        """A connection of the pool."""
        try:
            async with super().connection(
                timeout or (_AWAY_PATIENCE_S if self._away else _PATIENCE_S)
            ) as connection:
                self._away = False
                yield connection
        except psycopg.OperationalError:
            self._away = True
            with suppress(psycopg.Error):
                await self.check()
            raise


def _queue_pool(**settings: Any) -> CheckedPool[psycopg.AsyncConnection]:
    """Procrastinate queries one statement at a time: no BEGIN and COMMIT around each."""

    async def configured(connection: psycopg.AsyncConnection) -> None:
        await connection.set_autocommit(True)
        # What a crash of PostgreSQL may take back (a job fetched, finished, aborted in the queue)
        # is done again; what must hold is in `motet_jobs`, which is written through.
        await connection.execute("SET synchronous_commit = off")
        await connection.execute(f"{_BY_INDEX}; SET enable_hashjoin = off")

    own: dict[str, Any] = {"check": None, "configure": configured}
    return CheckedPool[psycopg.AsyncConnection](**{**settings, **own})


async def _by_index(connection: Connection) -> None:
    await connection.execute(_BY_INDEX)


class Database:
    """The pool of connections and Procrastinate's app on one server; open it, close it.

    `heal` brings an embedded server back that was killed; connections then mend themselves.
    """

    def __init__(self, url: str | None, folder: Path) -> None:
        self._url = url
        self._embedded = None if url else Embedded(folder)
        self._pool: CheckedPool[Connection] | None = None
        self._place = url or ""
        self._healing = asyncio.Lock()
        self.queue: App | None = None

    async def open(self) -> None:
        """Connect and make the tables where they are missing.

        Raises:
            MotetError: the server can't be reached, or is of a newer version.
        """
        url = self._place = await self._start()
        await self._prepare(url)
        self._pool = CheckedPool[Connection](
            url,
            min_size=2,
            max_size=_POOL,
            open=False,
            reconnect_timeout=_RECONNECT_S,
            connection_class=cast("type[Connection]", psycopg.AsyncConnection),
            configure=_by_index,
            kwargs={"row_factory": dict_row, "autocommit": True},
        )
        await self._pool.open(wait=True, timeout=30)
        connector = PsycopgConnector(
            conninfo=url,
            pool_factory=_queue_pool,
            min_size=1,
            max_size=16,
            reconnect_timeout=_RECONNECT_S,
        )
        self.queue = App(connector=connector)
        await self.queue.open_async()

    async def _start(self) -> str:
        if self._embedded is None:
            return cast(str, self._url)
        return await asyncio.to_thread(self._embedded.start)

    async def heal(self) -> None:
        """Start an embedded server again if it has died; nothing for one given by its URL."""
        if self._embedded is None:
            return
        async with self._healing:
            if not await self._answers():
                log.warning("the embedded PostgreSQL is gone; it is started again")
                await self._start()

    async def _answers(self) -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(self._place, connect_timeout=5)
            await connection.close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def is_embedded(self) -> bool:
        """Whether the server is our own, to be started again when it is gone."""
        return self._embedded is not None

    async def watch(self, watch: Watch) -> None:
        """Look every second whether an embedded server lives, until cancelled.

        Raises:
            Exception: it can't be started.
        """
        while True:
            await self.heal()
            watch.works()
            await asyncio.sleep(_WATCH_S)

    async def _prepare(self, url: str) -> None:
        """Our tables and Procrastinate's, made by one process at a time."""
        try:
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        except psycopg.OperationalError as error:
            raise MotetError(f"can't be reached: {error}", where="database") from error
        async with connection:
            await connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            if await _version(connection) < VERSION:
                await connection.execute(TABLES)
                found = await connection.execute("SELECT to_regclass('procrastinate_jobs')")
                if (await found.fetchone() or (None,))[0] is None:
                    app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=2))
                    async with app.open_async():
                        await app.schema_manager.apply_schema_async()
                await connection.execute(QUEUE)
                await connection.execute("DELETE FROM motet_schema")
                await connection.execute("INSERT INTO motet_schema VALUES (%s)", (VERSION,))
            await connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))

    async def execute(self, query: QueryNoTemplate, values: Params = None) -> list[DictRow]:
        """Run one statement, which is a transaction of its own: one round trip. Its rows."""
        async with self.connection() as connection:
            cursor = await connection.execute(query, values)
            return await cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A connection in a transaction, committed at the end, rolled back on an error."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection, each of whose statements is a transaction of its own."""
        if self._pool is None:
            raise RuntimeError("the database isn't open")
        async with self._pool.connection() as connection:
            yield connection

    async def close(self) -> None:
        """Give the connections back. An embedded server stays up for other processes."""
        if self.queue is not None:
            await self.queue.close_async()
        if self._pool is not None:
            await self._pool.close()


async def _version(connection: psycopg.AsyncConnection) -> int:
    """The version of the tables that are there, 0 where there are none.

    Raises:
        MotetError: they are newer than this program.
    """
    found = await connection.execute("SELECT to_regclass('motet_schema')")
    if (await found.fetchone() or (None,))[0] is None:
        return 0
    row = await (await connection.execute("SELECT version FROM motet_schema")).fetchone()
    version: int = row[0] if row else 0
    if version > VERSION:
        raise MotetError(
            f"its tables are of version {version}, this program knows {VERSION}", where="database"
        )
    return version
