"""The jobs as they are kept: states, progress, chunks and results, guarded by attempt numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal

from psycopg.types.json import Jsonb

from ...components.errors import MotetError
from .database import Connection, Database

_START = (
    b"UPDATE motet_jobs SET state = 'running', attempt = attempt + 1,"
    b" started_at = coalesce(started_at, now()) WHERE id = %(id)s"
    b" AND state IN ('queued', 'running')"
)
_PLACE = (
    b" AND owner_limit > (SELECT count(*) FROM motet_jobs other WHERE other.owner ="
    b" motet_jobs.owner AND other.state = 'running' AND other.id <> %(id)s)"
)
_INSERT = """
WITH made AS (
    INSERT INTO motet_jobs (id, owner, pipeline, priority, input, options, metadata, webhook,
        owner_limit, retention_s)
    SELECT id, owner, pipeline, priority, input, options, metadata, webhook, owner_limit,
        retention_s
    FROM jsonb_to_recordset(%(rows)s) AS given (id text, owner text, pipeline text,
        priority integer, input jsonb, options jsonb, metadata jsonb, webhook jsonb,
        owner_limit integer, retention_s double precision)
    RETURNING *
), queued AS (
    SELECT procrastinate_defer_jobs_v1(array_agg(
        ROW(%(queue)s, %(task)s, made.priority, made.id, NULL, jsonb_build_object('job', made.id),
            NULL)::procrastinate_job_to_defer_v1 ORDER BY given.place)) AS ids
    FROM made JOIN (SELECT value ->> 'id' AS id, place
        FROM jsonb_array_elements(%(rows)s) WITH ORDINALITY AS one (value, place)) given USING (id)
)
SELECT made.* FROM made, queued
"""
State = Literal["queued", "running", "completed", "failed", "cancelled"]
FINAL: tuple[State, ...] = ("completed", "failed", "cancelled")
Json = dict[str, Any]


class NotFound(MotetError):
    """There is no such thing, or it is another key's."""

    code = "not_found"


class Fenced(MotetError):
    """The job isn't this worker's any more: cancelled, deleted, or taken over."""

    code = "conflict"


@dataclass(frozen=True, slots=True)
class Job:
    """A row of `motet_jobs`. `attempt` counts starts and fences workers of earlier ones; `refused`
    are those starts that found no place to run."""

    id: str
    owner: str
    pipeline: str
    state: State
    priority: int
    input: Json
    options: Json
    metadata: Json
    webhook: Json | None
    attempt: int
    done: float
    total: float
    result: Json | None
    error: Json | None
    owner_limit: int | None
    retention_s: float
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    refused: int


LEAN = ", ".join(
    "NULL::jsonb AS result" if one.name == "result" else one.name for one in fields(Job)
).encode()
"""The columns of a `Job` without its result, which may be large."""


async def insert(
    connection: Connection, rows: Sequence[Mapping[str, Any]], queue: str, task: str
) -> list[Job]:
    """New jobs, in Procrastinate's queue as well, by one statement: one round trip in autocommit.

    The jobs come back in the order of the rows.
    """
    cursor = await connection.execute(
        _INSERT, {"rows": Jsonb([dict(row) for row in rows]), "queue": queue, "task": task}
    )
    made = {row["id"]: Job(**row) for row in await cursor.fetchall()}
    return [made[row["id"]] for row in rows]


async def lock_request(
    connection: Connection, owner: str, key: str, digest: str, ids: list[str]
) -> list[str] | None:
    """Remember which jobs an idempotency key made; those of an earlier request, if there was one.

    Raises:
        Conflict: the key was used for another request.
    """
    cursor = await connection.execute(
        "INSERT INTO motet_requests (owner, key, digest, jobs) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (owner, key) DO NOTHING RETURNING key",
        (owner, key, digest, ids),
    )
    if await cursor.fetchone():
        return None
    cursor = await connection.execute(
        "SELECT digest, jobs FROM motet_requests WHERE owner = %s AND key = %s", (owner, key)
    )
    row = await cursor.fetchone()
    assert row is not None
    if row["digest"] != digest:
        raise Conflict("this idempotency key was used for another request", where=key)
    return row["jobs"]


class Conflict(MotetError):
    """It contradicts what is there already."""

    code = "conflict"


class JobStore:
    """Queries on jobs. Writes of a worker name its attempt; a later attempt makes them fail."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job_id: str, owner: str | None = None) -> Job | None:
        """A job, of that owner where one is named."""
        rows = await self._database.execute(
            "SELECT * FROM motet_jobs WHERE id = %s AND (%s::text IS NULL OR owner = %s)",
            (job_id, owner, owner),
        )
        return Job(**rows[0]) if rows else None

    async def many(
        self,
        owner: str,
        *,
        ids: Sequence[str] | None,
        state: State | None,
        after: str | None,
        limit: int,
        pipelines: Sequence[str] | None = None,
        oldest_first: bool = False,
        results: bool = False,
    ) -> list[Job]:
        """Jobs of an owner, the newest first or the oldest, those behind `after` if it is given;
        without their results, which may be large, unless `results`.

        Raises:
            NotFound: there is no job `after`, or no more: what is behind it can't be told.
        """
        behind, order = (b">", b"ASC") if oldest_first else (b"<", b"DESC")
        after_it = (
            b" AND (created_at, id) " + behind + b" (SELECT created_at, id FROM motet_jobs"
            b" WHERE id = %(after)s AND owner = %(owner)s)"
        )
        # Only what is asked for is in the query, so that an index serves it.
        query = (
            (b"SELECT " + (b"*" if results else LEAN))
            + b" FROM motet_jobs WHERE owner = %(owner)s"
            + (b" AND id = ANY(%(ids)s)" if ids is not None else b"")
            + (b" AND state = %(state)s" if state is not None else b"")
            + (b" AND pipeline = ANY(%(pipelines)s)" if pipelines is not None else b"")
            + (after_it if after is not None else b"")
            + (b" ORDER BY created_at " + order + b", id " + order + b" LIMIT %(limit)s")
        )
        rows = await self._database.execute(
            query,
            {
                "owner": owner,
                "ids": list(ids) if ids is not None else None,
                "state": state,
                "pipelines": list(pipelines) if pipelines is not None else None,
                "after": after,
                "limit": limit,
            },
        )
        if not rows and after is not None and await self.get(after, owner) is None:
            raise NotFound(
                f"no job {after!r:.80} to go on behind; begin the list again", where="after"
            )
        return [Job(**row) for row in rows]

    async def start(self, job_id: str) -> Job | None:
        """Take a job on: its attempt goes up by one. None: it is over, or its owner has as many
        jobs at work as allowed (then it stays "queued")."""
        rows = await self._database.execute(
            _START + b" AND owner_limit IS NULL RETURNING *", {"id": job_id}
        )
        if not rows:
            async with self._database.transaction() as connection:
                # Two workers must not both find the last free place.
                await connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtext('motet ' || owner)) FROM motet_jobs"
                    " WHERE id = %s AND state IN ('queued', 'running')",
                    (job_id,),
                )
                cursor = await connection.execute(_START + _PLACE + b" RETURNING *", {"id": job_id})
                rows = await cursor.fetchall()
        return Job(**rows[0]) if rows else None

    async def chunks(self, job_id: str) -> list[Json]:
        """What was kept of a job, in the order it was made."""
        rows = await self._database.execute(
            "SELECT value FROM motet_chunks WHERE job = %s ORDER BY number", (job_id,)
        )
        return [row["value"] for row in rows]

    async def keep(self, job: Job, key: str, value: Json) -> None:
        """Keep a chunk's result.

        Raises:
            Fenced: the job is another worker's now.
        """
        kept = await self._database.execute(
            "INSERT INTO motet_chunks (job, key, attempt, value) SELECT id, %(key)s, attempt,"
            " %(value)s FROM motet_jobs WHERE id = %(job)s AND attempt = %(attempt)s"
            " AND state = 'running' FOR SHARE ON CONFLICT (job, key) DO UPDATE"
            " SET value = excluded.value, attempt = excluded.attempt RETURNING key",
            {"job": job.id, "attempt": job.attempt, "key": key, "value": Jsonb(value)},
        )
        if not kept:
            raise Fenced("taken over, cancelled or deleted", where=job.id)

    async def progress(self, job: Job, done: float, total: float) -> None:
        """How far a job is. Raises `Fenced`."""
        await self._guarded(job, "done = %(done)s, total = %(total)s", done=done, total=total)

    async def requeue(self, job: Job, *, refused: bool = False) -> None:
        """Give a job back, to be taken on later; `refused`: it found no place to run, which is no
        failure. Raises `Fenced`."""
        change = ", refused = refused + 1" if refused else ""
        await self._guarded(job, f"state = 'queued'{change}")

    async def _guarded(self, job: Job, change: str, **values: Any) -> None:
        query = (
            f"UPDATE motet_jobs SET {change} WHERE id = %(id)s AND attempt = %(attempt)s"
            " AND state = 'running' RETURNING id"
        )
        found = await self._database.execute(
            query.encode(), {"id": job.id, "attempt": job.attempt, **values}
        )
        if not found:
            raise Fenced("taken over, cancelled or deleted", where=job.id)
