"""How jobs end: completed, failed, cancelled, deleted, expired; each end and its event as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from .database import Database
from .requests import CancelRequest
from .store import LEAN, Fenced, Job, Json, State

DELIVERIES_DAYS = 30
_ENDED = b"WITH ended AS ("
_TOLD = b"""
), told AS (
    INSERT INTO motet_deliveries (id, event, owner, endpoint, job, type, body, state)
    SELECT message, message, owner, endpoint, job, type, body, state FROM (
        SELECT 'msg_' || replace(gen_random_uuid()::text, '-', '') AS message, ended.owner,
            endpoints.id AS endpoint, ended.id AS job, 'job.' || ended.state AS type,
            CASE WHEN endpoints.disabled IS NULL THEN 'pending' ELSE 'failed' END AS state,
            json_build_object(
                'type', 'job.' || ended.state,
                'timestamp', to_char(ended.finished_at AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'data', json_build_object('id', ended.id, 'object', 'job',
                    'pipeline', ended.pipeline, 'state', ended.state,
                    'input', json_build_object('name', left(ended.input ->> 'name', 255)),
                    'metadata', ended.metadata, 'error', ended.error,
                    'url', CASE WHEN starts_with(ended.id, 'video_') THEN '/v1/videos/'
                        ELSE '/v1/jobs/' END || ended.id)
            )::text AS body
        FROM ended CROSS JOIN LATERAL (
            SELECT id, disabled, events FROM motet_endpoints
            WHERE id = ended.webhook ->> 'endpoint' AND owner = ended.owner
            UNION ALL
            SELECT id, disabled, events FROM motet_endpoints
            WHERE owner = ended.owner AND NOT once AND ended.webhook ->> 'endpoint' IS NULL
        ) endpoints
        WHERE (endpoints.events = '{}' OR 'job.' || ended.state = ANY(endpoints.events))
            AND NOT coalesce((ended.webhook ->> 'off')::boolean, false)
        OFFSET 0) wanted
)
"""
"""The event of a job's end goes into the outbox of every endpoint that wants it: thin, what
happened to which job; the result is fetched. Where an endpoint is disabled, it is kept as failed,
to be replayed. (OFFSET 0: a message has one id, made once.)"""


async def finish(
    database: Database, job: Job, state: State, *, result: Json | None = None, error: Any = None
) -> None:
    """End a job that this worker runs, and note its event, by one statement.

    Raises:
        Fenced: it is another worker's now.
    """
    ended = await database.execute(
        _ENDED
        + b"""
        UPDATE motet_jobs SET state = %(state)s, result = %(result)s, error = %(error)s,
            finished_at = now(), expires_at = now() + make_interval(secs => retention_s),
            done = CASE WHEN %(state)s = 'completed' THEN total ELSE done END
        WHERE id = %(id)s AND attempt = %(attempt)s AND state = 'running' RETURNING *
        """
        + _TOLD
        + b"SELECT id FROM ended",
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


async def cancel(database: Database, owner: str, wanted: CancelRequest, most: int) -> list[Job]:
    """Cancel jobs of an owner that aren't over, the oldest first; those that were, without results.

    They count as cancelled at once, and whoever runs them is fenced off.
    """
    query = (
        _ENDED
        + b"""
        UPDATE motet_jobs SET state = 'cancelled', attempt = attempt + 1,
            finished_at = now(), expires_at = now() + make_interval(secs => retention_s)
        WHERE state IN ('queued', 'running') AND id IN (SELECT id FROM motet_jobs
            WHERE owner = %(owner)s AND state IN ('queued', 'running')"""
        + (b" AND id = ANY(%(ids)s)" if wanted.ids else b"")
        + (b" AND state = %(state)s" if wanted.state else b"")
        + (b" AND pipeline = %(pipeline)s" if wanted.pipeline else b"")
        + (b" AND metadata @> %(metadata)s" if wanted.metadata else b"")
        + b" ORDER BY created_at LIMIT %(most)s) RETURNING *"
        + _TOLD
        + b"SELECT "
        + LEAN
        + b" FROM ended"
    )
    asked = wanted.model_dump() | {"metadata": Jsonb(wanted.metadata)}
    rows = await database.execute(query, {**asked, "owner": owner, "most": most})
    return [Job(**row) for row in rows]


async def delete(database: Database, job_id: str, owner: str) -> Job | None:
    """Remove a job with all that was kept of it; a running one is fenced off. None: no such."""
    rows = await database.execute(
        b"DELETE FROM motet_jobs WHERE id = %s AND owner = %s RETURNING " + LEAN, (job_id, owner)
    )
    return Job(**rows[0]) if rows else None


async def expired(database: Database, most: int) -> list[Job]:
    """Some of the jobs whose retention is over, without their results."""
    rows = await database.execute(
        b"SELECT " + LEAN + b" FROM motet_jobs WHERE expires_at < now() ORDER BY expires_at"
        b" LIMIT %s",
        (most,),
    )
    return [Job(**row) for row in rows]


async def remove(database: Database, jobs: Sequence[Job]) -> None:
    """Remove jobs with all that is kept of them in the database."""
    await database.execute("DELETE FROM motet_jobs WHERE id = ANY(%s)", ([job.id for job in jobs],))


async def tidy(database: Database) -> None:
    """Remove what nobody needs any more: old idempotency keys, what was sent long ago, and
    endpoints of single requests that nothing is left of."""
    await database.execute(
        "DELETE FROM motet_requests WHERE created_at < now() - interval '24 hours'"
    )
    await database.execute(
        "DELETE FROM motet_deliveries WHERE created_at < now() - make_interval(days => %s)"
        " AND state <> 'pending'",
        (DELIVERIES_DAYS,),
    )
    await database.execute(
        "DELETE FROM motet_endpoints e WHERE once AND created_at < now() - interval '1 hour'"
        " AND NOT EXISTS (SELECT 1 FROM motet_jobs WHERE webhook IS NOT NULL"
        " AND webhook ->> 'endpoint' = e.id) AND NOT EXISTS"
        " (SELECT 1 FROM motet_deliveries WHERE endpoint = e.id AND state = 'pending')"
    )
