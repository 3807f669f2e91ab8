"""What was sent to webhooks: listed, with every attempt, and sent again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from .database import Database
from .shapes import AttemptShape, DeliveryShape, DeliveryState
from .store import NotFound

_OF_STATE: dict[DeliveryState | None, bytes] = {
    None: b"",
    "pending": b" AND state = 'pending'",
    "delivered": b" AND state = 'delivered'",
    "failed": b" AND state = 'failed'",
}


class Deliveries:
    """Queries on deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def log_of(self, delivery: str, owner: str) -> list[AttemptShape] | None:
        """Every attempt of a delivery; None if there is no such delivery of this owner."""
        rows = await self._database.execute(
            "SELECT l.attempt, l.at, l.request, l.status, l.response, l.error, l.latency_ms"
            " FROM motet_deliveries d LEFT JOIN motet_delivery_log l ON l.delivery = d.id"
            " WHERE d.id = %s AND d.owner = %s ORDER BY l.attempt",
            (delivery, owner),
        )
        made = [row for row in rows if row["attempt"] is not None]
        return cast("list[AttemptShape]", made) if rows else None

    async def many(
        self,
        owner: str,
        *,
        state: DeliveryState | None,
        endpoint: str | None,
        after: str | None,
        limit: int,
    ) -> list[DeliveryShape]:
        """Deliveries of an owner, the newest first; state "failed" is the dead letter box.

        Raises:
            NotFound: there is no delivery `after`, or no more: what is behind it can't be told.
        """
        # Only what is asked for is in the query, so that an index serves it.
        behind = (
            b" AND (created_at, id) <"
            b" (SELECT created_at, id FROM motet_deliveries"
            b" WHERE id = %(after)s AND owner = %(owner)s)"
        )
        query = (
            b"SELECT id, event, endpoint, job, type, state, attempts, next_at, created_at"
            b" FROM motet_deliveries WHERE owner = %(owner)s"
            + _OF_STATE[state]
            + (b" AND endpoint = %(endpoint)s" if endpoint is not None else b"")
            + (behind if after is not None else b"")
            + b" ORDER BY created_at DESC, id DESC LIMIT %(limit)s"
        )
        asked = {"owner": owner, "endpoint": endpoint, "after": after, "limit": limit}
        rows = await self._database.execute(query, asked)
        if not rows and after is not None and await self.log_of(after, owner) is None:
            raise NotFound(
                f"no delivery {after!r:.80} to go on behind; begin the list again", where="after"
            )
        return cast("list[DeliveryShape]", rows)

    async def replay(
        self,
        owner: str,
        *,
        ids: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        endpoint: str | None = None,
    ) -> int:
        """Have deliveries sent again, under their own ids: by id, or by when made; how many."""
        query = (
            b"UPDATE motet_deliveries d SET state = 'pending', before = attempts, next_at = now()"
            b" FROM motet_endpoints e WHERE e.id = d.endpoint AND e.disabled IS NULL"
            b" AND d.owner = %(owner)s"
            + (b" AND d.id = ANY(%(ids)s)" if ids is not None else b"")
            + (b" AND d.created_at >= %(since)s" if since is not None else b"")
            + (b" AND d.created_at < %(until)s" if until is not None else b"")
            + (b" AND d.endpoint = %(endpoint)s" if endpoint is not None else b"")
        )
        asked = {
            "owner": owner,
            "ids": list(ids) if ids is not None else None,
            "since": since,
            "until": until,
            "endpoint": endpoint,
        }
        async with self._database.connection() as connection:
            return (await connection.execute(query, asked)).rowcount
