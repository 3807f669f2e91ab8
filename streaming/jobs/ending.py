"""How jobs end: completed, failed, cancelled, deleted, expired; each end and its event as one."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from .database import Database
from .store import Fenced, Job, Json

_ENDED = "WITH ended AS ("
_TOLD = """
), told AS (
    INSERT INTO motet_deliveries (id, event, owner, endpoint, job, type, body)
    SELECT message, message, owner, endpoint, job, type, body FROM (
        SELECT 'msg_' || replace(gen_random_uuid()::text, '-', '') AS message, ended.owner,
            endpoints.id AS endpoint, ended.id AS job, 'job.' || ended.state AS type,
            json_build_object(
                'type', 'job.' || ended.state,
                'timestamp', to_char(ended.finished_at AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'data', json_build_object('id', ended.id, 'object', 'job',
                    'pipeline', ended.pipeline, 'state', ended.state,
                    'metadata', ended.metadata, 'error', ended.error,
                    'url', '/v1/jobs/' || ended.id)
            )::text AS body
        FROM ended JOIN motet_endpoints endpoints ON endpoints.owner = ended.owner
            AND endpoints.disabled IS NULL
            AND (endpoints.events = '{}' OR 'job.' || ended.state = ANY(endpoints.events))
            AND NOT coalesce((ended.webhook ->> 'off')::boolean, false)
            AND endpoints.id = coalesce(ended.webhook ->> 'endpoint', endpoints.id)
            AND (NOT endpoints.once OR ended.webhook ->> 'endpoint' IS NOT NULL)
        OFFSET 0) wanted
)
SELECT * FROM ended
"""
"""The event of a job's end goes into the outbox of every endpoint that wants it: thin, what
happened to which job; the result is fetched. (OFFSET 0: a message has one id, made once.)"""


async def finish(
    database: Database, job: Job, state: str, *, result: Json | None = None, error: Any = None
) -> None:
    """End a job that this worker runs, and note its event, by one statement.

    Raises:
        Fenced: it is another worker's now.
    """
    ended = await database.execute(
        _ENDED
        + """
        UPDATE motet_jobs SET state = %(state)s, result = %(result)s, error = %(error)s,
            finished_at = now(), expires_at = now() + make_interval(secs => retention_s),
            done = CASE WHEN %(state)s = 'completed' THEN total ELSE done END
        WHERE id = %(id)s AND attempt = %(attempt)s AND state = 'running' RETURNING *
        """
        + _TOLD,
        {
            "id": job.id,
            "attempt": job.attempt,
            "state": state,
            "result": Jsonb(result) if result is not None else None,
            "error": Jsonb(error) if error is not None else None,
        },
    )
    if not ended:
        raise Fenced("taken over, cancelled or deleted", where=job.id)


async def cancel(database: Database, job_id: str, owner: str) -> Job | None:
    """Cancel a job unless it is over: it counts as cancelled at once, and its worker is fenced off.

    None if there is no such job of this owner.
    """
    asked = {"id": job_id, "owner": owner}
    rows = await database.execute(
        _ENDED
        + """
        UPDATE motet_jobs SET state = 'cancelled', attempt = attempt + 1,
            finished_at = now(), expires_at = now() + make_interval(secs => retention_s)
        WHERE id = %(id)s AND owner = %(owner)s AND state IN ('queued', 'running') RETURNING *
        """
        + _TOLD,
        asked,
    )
    if not rows:
        rows = await database.execute(
            "SELECT * FROM motet_jobs WHERE id = %(id)s AND owner = %(owner)s", asked
        )
    return Job(**rows[0]) if rows else None


async def delete(database: Database, job_id: str, owner: str) -> Job | None:
    """Remove a job with all that was kept of it; a running one is fenced off. None: no such."""
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "DELETE FROM motet_jobs WHERE id = %s AND owner = %s RETURNING *", (job_id, owner)
        )
        row = await cursor.fetchone()
    return Job(**row) if row else None


async def expired(database: Database) -> list[Job]:
    """Remove the jobs whose retention is over, and name them. Old idempotency keys go too, and
    endpoints of single requests that nothing is left of."""
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "DELETE FROM motet_jobs WHERE expires_at < now() RETURNING *"
        )
        gone = [Job(**row) for row in await cursor.fetchall()]
        await connection.execute(
            "DELETE FROM motet_requests WHERE created_at < now() - interval '24 hours'"
        )
        await connection.execute(
            "DELETE FROM motet_endpoints e WHERE once AND created_at < now() - interval '1 hour'"
            " AND NOT EXISTS (SELECT 1 FROM motet_jobs WHERE webhook IS NOT NULL"
            " AND webhook ->> 'endpoint' = e.id) AND NOT EXISTS"
            " (SELECT 1 FROM motet_deliveries WHERE endpoint = e.id AND state = 'pending')"
        )
    return gone
