"""Deliveries of webhooks: sent when due by whichever process gets them, logged, replayed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx
from httpx_secure import SSRFProtectionError
from psycopg import OperationalError
from psycopg.types.json import Jsonb

from ..fetch import check_url, guarded
from ..webhooks import Verdict, headers, judge
from .database import Connection, Database
from .endpoints import current_secrets

log = logging.getLogger("motet.webhooks")

TIMEOUT_S = 20.0
_LEASE_S = 60.0
_AT_ONCE = 16
_IDLE_S = 0.5
_KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery that this process has taken; `attempt` counts from 1."""

    id: str
    event: str
    endpoint: str
    url: str
    secrets: list[dict[str, Any]]
    body: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What an attempt met: a status and the beginning of a body, or an error."""

    status: int | None
    body: str | None
    error: str | None
    retry_after: str | None
    latency_ms: float


class Outbox:
    """Sends what is due, several at once. `serve` runs until it is cancelled."""

    def __init__(self, database: Database, *, allow_loopback: bool) -> None:
        self._database = database
        self._allow_loopback = allow_loopback
        self._random = Random()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something is due now."""
        self._wake.set()

    async def serve(self) -> None:
        """Send what is due, and look again every half second."""
        while True:
            self._wake.clear()
            try:
                due = await self._take()
                if due:
                    await asyncio.gather(*(self._attempt(one) for one in due))
                    continue
            except OperationalError:
                log.warning("the database can't be reached; deliveries wait")
                await self._database.heal()
            try:
                await asyncio.wait_for(self._wake.wait(), _IDLE_S)
            except TimeoutError:
                continue

    async def _take(self) -> list[Due]:
        """Lease what is due: nobody else sends it meanwhile, and it comes back if we die."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "UPDATE motet_deliveries d SET attempts = attempts + 1,"
                " next_at = now() + make_interval(secs => %s)"
                " FROM motet_endpoints e WHERE e.id = d.endpoint AND d.id IN"
                " (SELECT id FROM motet_deliveries WHERE state = 'pending' AND next_at <= now()"
                " ORDER BY next_at LIMIT %s FOR UPDATE SKIP LOCKED)"
                " RETURNING d.id, d.event, d.endpoint, e.url, e.secrets, d.body,"
                " d.attempts AS attempt",
                (_LEASE_S, _AT_ONCE),
            )
            return [Due(**row) for row in await cursor.fetchall()]

    async def _attempt(self, due: Due) -> None:
        now = datetime.now(UTC)
        sent = headers(current_secrets(due.secrets, now), due.event, int(now.timestamp()), due.body)
        met = await self._post(due.url, sent, due.body)
        verdict = judge(
            due.attempt, met.status, met.retry_after, now=datetime.now(UTC), random=self._random
        )
        async with self._database.transaction() as connection:
            await self._record(connection, due, sent, met)
            await self._settle(connection, due, verdict)

    async def _post(self, url: str, sent: dict[str, str], body: str) -> Answered:
        began_s = time.monotonic()

        def answered(**facts: Any) -> Answered:
            none = {"status": None, "body": None, "error": None, "retry_after": None}
            return Answered(**{**none, **facts}, latency_ms=(time.monotonic() - began_s) * 1000)

        try:
            async with asyncio.timeout(TIMEOUT_S):
                parsed = check_url(url, allow_loopback=self._allow_loopback)
                client = guarded(allow_loopback=self._allow_loopback, timeout_s=TIMEOUT_S)
                async with (
                    client,
                    client.stream("POST", parsed, content=body, headers=sent) as response,
                ):
                    kept = await _beginning(response)
                    after = response.headers.get("retry-after")
                    return answered(status=response.status_code, body=kept, retry_after=after)
        except SSRFProtectionError:
            return answered(error="its address is not a public one")
        except TimeoutError:
            return answered(error=f"no answer within {TIMEOUT_S:g} s")
        except (httpx.HTTPError, ValueError) as error:
            return answered(error=type(error).__name__)

    async def _record(
        self, connection: Connection, due: Due, sent: dict[str, str], met: Answered
    ) -> None:
        shown = {name: value for name, value in sent.items() if name != "webhook-signature"}
        await connection.execute(
            "INSERT INTO motet_delivery_log (delivery, attempt, request, status, response, error,"
            " latency_ms) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (
                due.id,
                due.attempt,
                Jsonb({"url": due.url, "headers": shown}),
                met.status,
                met.body,
                met.error,
                met.latency_ms,
            ),
        )

    async def _settle(self, connection: Connection, due: Due, verdict: Verdict) -> None:
        """Note what becomes of the delivery; a 410 disables its endpoint."""
        state = "failed" if verdict.state == "gone" else verdict.state
        await connection.execute(
            "UPDATE motet_deliveries SET state = %s, next_at = now() + make_interval(secs => %s)"
            " WHERE id = %s AND attempts = %s",
            (state, verdict.wait_s, due.id, due.attempt),
        )
        if verdict.state == "gone":
            await connection.execute(
                "UPDATE motet_endpoints SET disabled = 'it answered 410' WHERE id = %s",
                (due.endpoint,),
            )
            await connection.execute(
                "UPDATE motet_deliveries SET state = 'failed' WHERE endpoint = %s"
                " AND state = 'pending'",
                (due.endpoint,),
            )

    async def log_of(self, delivery: str, owner: str) -> list[dict[str, Any]]:
        """Every attempt of a delivery."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT l.attempt, l.at, l.request, l.status, l.response, l.error, l.latency_ms"
                " FROM motet_delivery_log l JOIN motet_deliveries d ON d.id = l.delivery"
                " WHERE l.delivery = %s AND d.owner = %s ORDER BY l.attempt",
                (delivery, owner),
            )
            return list(await cursor.fetchall())

    async def many(
        self, owner: str, *, state: str | None, endpoint: str | None, after: str | None, limit: int
    ) -> list[dict[str, Any]]:
        """Deliveries of an owner, the newest first; state "failed" is the dead letter box."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "SELECT id, event, endpoint, job, type, state, attempts, next_at, created_at"
                " FROM motet_deliveries WHERE owner = %(owner)s"
                " AND (%(state)s::text IS NULL OR state = %(state)s)"
                " AND (%(endpoint)s::text IS NULL OR endpoint = %(endpoint)s)"
                " AND (%(after)s::text IS NULL OR (created_at, id) <"
                " (SELECT created_at, id FROM motet_deliveries WHERE id = %(after)s))"
                " ORDER BY created_at DESC, id DESC LIMIT %(limit)s",
                {
                    "owner": owner,
                    "state": state,
                    "endpoint": endpoint,
                    "after": after,
                    "limit": limit,
                },
            )
            return list(await cursor.fetchall())

    async def replay(
        self,
        owner: str,
        *,
        ids: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        endpoint: str | None = None,
    ) -> int:
        """Send deliveries again, under their own ids: by id, or by when made; how many."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                "UPDATE motet_deliveries d SET state = 'pending', attempts = 0, next_at = now()"
                " FROM motet_endpoints e WHERE e.id = d.endpoint AND e.disabled IS NULL"
                " AND d.owner = %(owner)s AND (%(ids)s::text[] IS NULL OR d.id = ANY(%(ids)s))"
                " AND (%(since)s::timestamptz IS NULL OR d.created_at >= %(since)s)"
                " AND (%(until)s::timestamptz IS NULL OR d.created_at < %(until)s)"
                " AND (%(endpoint)s::text IS NULL OR d.endpoint = %(endpoint)s)",
                {
                    "owner": owner,
                    "ids": list(ids) if ids is not None else None,
                    "since": since,
                    "until": until,
                    "endpoint": endpoint,
                },
            )
            count = cursor.rowcount
        self.wake()
        return count


async def _beginning(response: httpx.Response) -> str:
    """The first 4 kB of an answer's body."""
    kept = bytearray()
    async for part in response.aiter_bytes():
        kept += part
        if len(kept) >= _KEPT_BYTES:
            break
    return bytes(kept[:_KEPT_BYTES]).decode(errors="replace").replace("\x00", "")
