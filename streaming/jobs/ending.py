"""How jobs end: completed, failed, cancelled, deleted, expired; each end and its event as one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

from .database import Connection, Database
from .store import FINAL, Fenced, Job, Json


async def finish(
    database: Database, job: Job, state: str, *, result: Json | None = None, error: Any = None
) -> None:
    """End a job that this worker runs, and note its event in the same transaction.

    Raises:
        Fenced: it is another worker's now.
    """
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "UPDATE motet_jobs SET state = %(state)s, result = %(result)s, error = %(error)s,"
            " finished_at = now(), expires_at = now() + make_interval(secs => retention_s),"
            " done = CASE WHEN %(state)s = 'completed' THEN total ELSE done END"
            " WHERE id = %(id)s AND attempt = %(attempt)s AND state = 'running' RETURNING *",
            {
                "id": job.id,
                "attempt": job.attempt,
                "state": state,
                "result": Jsonb(result) if result is not None else None,
                "error": Jsonb(error) if error is not None else None,
            },
        )
        row = await cursor.fetchone()
        if row is None:
            raise Fenced("taken over, cancelled or deleted", where=job.id)
        await announce(connection, Job(**row))


async def cancel(database: Database, job_id: str, owner: str) -> Job | None:
    """Cancel a job unless it is over: it counts as cancelled at once, and its worker is fenced off.

    None if there is no such job of this owner.
    """
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "UPDATE motet_jobs SET state = 'cancelled', attempt = attempt + 1,"
            " finished_at = now(), expires_at = now() + make_interval(secs => retention_s)"
            " WHERE id = %s AND owner = %s AND state IN ('queued', 'running') RETURNING *",
            (job_id, owner),
        )
        row = await cursor.fetchone()
        if row is not None:
            await announce(connection, Job(**row))
        else:
            cursor = await connection.execute(
                "SELECT * FROM motet_jobs WHERE id = %s AND owner = %s", (job_id, owner)
            )
            row = await cursor.fetchone()
    return Job(**row) if row else None


async def delete(database: Database, job_id: str, owner: str) -> Job | None:
    """Remove a job with all that was kept of it; a running one is fenced off. None: no such."""
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "DELETE FROM motet_jobs WHERE id = %s AND owner = %s RETURNING *", (job_id, owner)
        )
        row = await cursor.fetchone()
    return Job(**row) if row else None


async def expired(database: Database) -> list[Job]:
    """Remove the jobs whose retention is over, and name them. Old idempotency keys go too."""
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "DELETE FROM motet_jobs WHERE expires_at < now() RETURNING *"
        )
        gone = [Job(**row) for row in await cursor.fetchall()]
        await connection.execute(
            "DELETE FROM motet_requests WHERE created_at < now() - interval '24 hours'"
        )
    return gone


async def announce(connection: Connection, job: Job) -> None:
    """Put the event of a job's end into the outbox of every endpoint that wants it."""
    wish = job.webhook or {}
    if wish.get("off"):
        return
    event = f"job.{job.state}"
    await connection.execute(
        "INSERT INTO motet_deliveries (id, event, owner, endpoint, job, type, body)"
        " SELECT message, message, owner, id, %(job)s, %(type)s, %(body)s FROM"
        " (SELECT id, owner, 'msg_' || replace(gen_random_uuid()::text, '-', '') AS message"
        " FROM motet_endpoints WHERE owner = %(owner)s AND disabled IS NULL"
        " AND (events = '{}' OR %(type)s = ANY(events))"
        " AND (%(chosen)s::text IS NULL OR id = %(chosen)s)) wanted",
        {
            "owner": job.owner,
            "job": job.id,
            "type": event,
            "body": json.dumps(event_body(event, job), separators=(",", ":")),
            "chosen": wish.get("endpoint"),
        },
    )


def event_body(event: str, job: Job) -> Mapping[str, Any]:
    """A thin event: what happened to which job; the result is fetched."""
    at = (job.finished_at or datetime.now(UTC)).astimezone(UTC)
    return {
        "type": event,
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        "data": {
            "id": job.id,
            "object": "job",
            "pipeline": job.pipeline,
            "state": job.state,
            "metadata": job.metadata,
            "error": job.error,
            "url": f"/v1/jobs/{job.id}",
        },
    }


__all__ = ["FINAL", "announce", "cancel", "delete", "event_body", "expired", "finish"]
