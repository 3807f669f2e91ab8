"""Where an owner's events go: URLs, the events they want, and their secrets, which rotate."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from psycopg.types.json import Jsonb

from ...components.errors import MotetError
from .database import Connection, Database
from .shapes import EndpointShape
from .webhooks import new_secret, secret_bytes

MOST = 50
MOST_SECRETS = 8
OVERLAP_S = 24 * 3600.0


class TooMany(MotetError):
    """The owner has as many endpoints as allowed."""

    code = "conflict"


def current_secrets(kept: Sequence[dict[str, Any]], now: datetime) -> list[str]:
    """The secrets to sign with: the newest, and older ones until they expire."""
    return [
        one["secret"]
        for one in kept
        if one["until"] is None or datetime.fromisoformat(one["until"]) > now
    ]


def checked_secret(secret: str | None) -> str:
    """The secret that was given, or a new one.

    Raises:
        BadInput: it isn't one.
    """
    secret = secret or new_secret()
    secret_bytes(secret)
    return secret


async def add_once(connection: Connection, owner: str, url: str, secret: str) -> str:
    """An endpoint for the jobs of one request, which goes when they have; its id."""
    endpoint = f"we_{secrets.token_hex(12)}"
    await connection.execute(
        "INSERT INTO motet_endpoints (id, owner, url, secrets, once) VALUES (%s, %s, %s, %s, true)",
        (endpoint, owner, url, Jsonb([{"secret": secret, "until": None}])),
    )
    return endpoint


class Endpoints:
    """Queries on webhook endpoints."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, owner: str, url: str, events: Sequence[str], secret: str | None
    ) -> EndpointShape:
        """A new endpoint, with its secret, which is shown this once.

        Raises:
            BadInput: the secret isn't one.
            TooMany: there are 50 already.
        """
        secret = checked_secret(secret)
        kept = [{"secret": secret, "until": None}]
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "INSERT INTO motet_endpoints (id, owner, url, events, secrets)"
                " SELECT %(id)s, %(owner)s, %(url)s, %(events)s, %(secrets)s WHERE"
                " (SELECT count(*) FROM motet_endpoints WHERE owner = %(owner)s AND NOT once)"
                " < %(most)s"
                " RETURNING id, url, events, disabled, created_at",
                {
                    "id": f"we_{secrets.token_hex(12)}",
                    "owner": owner,
                    "url": url,
                    "events": list(events),
                    "secrets": Jsonb(kept),
                    "most": MOST,
                },
            )
            row = await cursor.fetchone()
        if row is None:
            raise TooMany(f"there are {MOST} webhook endpoints already", where="webhooks")
        return _shown({**row, "secret": secret})

    async def many(self, owner: str) -> list[EndpointShape]:
        """All of an owner, without their secrets and without those of single requests."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT id, url, events, disabled, created_at FROM motet_endpoints"
                " WHERE owner = %s AND NOT once ORDER BY created_at, id",
                (owner,),
            )
            return [_shown(row) for row in await cursor.fetchall()]

    async def has(self, owner: str, endpoint: str) -> bool:
        """Whether there is such an endpoint of this owner."""
        return bool(
            await self._database.execute(
                "SELECT id FROM motet_endpoints WHERE owner = %s AND id = %s", (owner, endpoint)
            )
        )

    async def remove(self, owner: str, endpoint: str) -> bool:
        """Take one away, with its deliveries."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "DELETE FROM motet_endpoints WHERE owner = %s AND id = %s", (owner, endpoint)
            )
            return cursor.rowcount > 0

    async def enable(self, owner: str, endpoint: str) -> bool:
        """Use one again that was disabled."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "UPDATE motet_endpoints SET disabled = NULL WHERE owner = %s AND id = %s",
                (owner, endpoint),
            )
            return cursor.rowcount > 0

    async def rotate(self, owner: str, endpoint: str, overlap_s: float) -> str | None:
        """A new secret; the old one signs along for `overlap_s`. None: no such endpoint.

        Raises:
            TooMany: so many old ones sign along already that no more fit a header.
        """
        secret = new_secret()
        now = datetime.now(UTC)
        until = (now + timedelta(seconds=overlap_s)).isoformat()
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT secrets FROM motet_endpoints WHERE owner = %s AND id = %s FOR UPDATE",
                (owner, endpoint),
            )
            row = await cursor.fetchone()
            if row is None:
                return None
            alive = set(current_secrets(row["secrets"], now))
            if len(alive) >= MOST_SECRETS and overlap_s > 0:
                raise TooMany(
                    f"{len(alive)} secrets of it are valid by now; rotate with overlap_s 0 to end"
                    " the newest of them, or wait until others end",
                    where="webhooks",
                )
            older = [
                {"secret": one["secret"], "until": one["until"] or until}
                for one in row["secrets"]
                if one["secret"] in alive
            ]
            await connection.execute(
                "UPDATE motet_endpoints SET secrets = %s WHERE id = %s",
                (Jsonb([{"secret": secret, "until": None}, *older]), endpoint),
            )
        return secret


def _shown(row: dict[str, Any]) -> EndpointShape:
    return cast("EndpointShape", {"object": "webhook_endpoint", **row})
