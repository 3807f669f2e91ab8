"""Deliveries of webhooks, sent when due by whichever process gets them, every attempt logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx
from httpx_secure import SSRFProtectionError
from prometheus_client import Counter as Metric
from psycopg.types.json import Jsonb

from ...components.errors import BadInput
from ..fetch import NOT_PUBLIC, check_url, guarded
from ..operate.upkeep import Watch, said
from .database import Connection, Database
from .endpoints import current_secrets
from .webhooks import Verdict, headers, judge

log = logging.getLogger("motet.webhooks")

TIMEOUT_S = 20.0
_LEASE_S = 60.0
_AT_ONCE = 32
_EACH = 8
_IDLE_S = 0.5
_KEPT_BYTES = 4096
_OUTCOMES = {"delivered": "delivered", "pending": "retried", "failed": "dead", "gone": "disabled"}

_TAKE = b"""
WITH RECURSIVE waiting AS (
    (SELECT endpoint FROM motet_deliveries WHERE state = 'pending' ORDER BY endpoint LIMIT 1)
    UNION ALL
    SELECT (SELECT d.endpoint FROM motet_deliveries d WHERE d.state = 'pending'
        AND d.endpoint > w.endpoint ORDER BY d.endpoint LIMIT 1)
    FROM waiting w WHERE w.endpoint IS NOT NULL
), due AS (
    SELECT first.id FROM waiting w CROSS JOIN LATERAL (
        SELECT id, next_at FROM motet_deliveries
        WHERE state = 'pending' AND endpoint = w.endpoint AND next_at <= now() ORDER BY next_at
        LIMIT greatest(%(each)s - coalesce((%(sending)s::jsonb ->> w.endpoint)::integer, 0), 0)
        FOR UPDATE SKIP LOCKED
    ) first ORDER BY first.next_at LIMIT %(most)s
)
UPDATE motet_deliveries d SET attempts = attempts + 1,
    next_at = now() + make_interval(secs => %(lease_s)s)
FROM motet_endpoints e WHERE e.id = d.endpoint AND d.id IN (SELECT id FROM due)
RETURNING d.id, d.event, d.endpoint, e.url, e.secrets, d.body, d.attempts AS attempt, d.before
"""
"""The oldest due ones of every endpoint that something waits for; endpoint by endpoint, so that
thousands for one are no work for the others."""


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery that this process has taken; `attempt` counts from 1, `before` are those made
    before it was last replayed."""

    id: str
    event: str
    endpoint: str
    url: str
    secrets: list[dict[str, Any]]
    body: str
    attempt: int
    before: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What an attempt met: a status and the beginning of a body, or an error."""

    status: int | None
    body: str | None
    error: str | None
    retry_after: str | None
    latency_ms: float


class Outbox:
    """Sends what is due, several at once, and only so many to one endpoint, so that one that
    stalls holds up nobody else. `serve` runs until it is cancelled."""

    def __init__(self, database: Database, attempts: Metric, *, allow_loopback: bool) -> None:
        self._database = database
        self._attempts = attempts
        self._allow_loopback = allow_loopback
        self._random = Random()
        self._wake = asyncio.Event()
        self._sending: Counter[str] = Counter()

    def wake(self) -> None:
        """Something is due now."""
        self._wake.set()

    async def serve(self, watch: Watch) -> None:
        """Send what is due; look when woken, when one is done, and every half second."""
        self._sending.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                for due in await self._take(_AT_ONCE - self._sending.total()):
                    self._sending[due.endpoint] += 1
                    group.create_task(self._send(due), name="webhook")
                watch.works()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _IDLE_S)

    async def _take(self, most: int) -> list[Due]:
        """Lease what is due: nobody else sends it meanwhile, and it comes back if we die."""
        if most <= 0:
            return []
        rows = await self._database.execute(
            _TAKE,
            {
                "lease_s": _LEASE_S,
                "most": most,
                "each": _EACH,
                "sending": Jsonb({name: count for name, count in self._sending.items() if count}),
            },
        )
        return [Due(**row) for row in rows]

    async def _send(self, due: Due) -> None:
        """Make one attempt. One that can't be made, or noted, is made again after its lease."""
        try:
            await self._attempt(due)
        except Exception as error:
            log.error("delivery %s to %s: %s", due.id, due.endpoint, said(error))
        finally:
            self._sending[due.endpoint] -= 1
            self._wake.set()

    async def _attempt(self, due: Due) -> None:
        now = datetime.now(UTC)
        sent = headers(current_secrets(due.secrets, now), due.event, int(now.timestamp()), due.body)
        met = await self._post(due.url, sent, due.body)
        verdict = judge(
            due.attempt - due.before,
            met.status,
            met.retry_after,
            now=datetime.now(UTC),
            random=self._random,
        )
        async with self._database.transaction() as connection:
            await self._record(connection, due, sent, met)
            await self._settle(connection, due, verdict)
        self._attempts.labels(_OUTCOMES[verdict.state]).inc()
        _tell(due, met, verdict)

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
        except BadInput as error:
            return answered(error=error.message)
        except SSRFProtectionError:
            return answered(error=NOT_PUBLIC)
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


def _tell(due: Due, met: Answered, verdict: Verdict) -> None:
    """Log an attempt that failed; where it was the last, as a warning."""
    if verdict.state == "delivered":
        return
    got = met.error or f"status {met.status}"
    what = f"delivery {due.id} to endpoint {due.endpoint}: attempt {due.attempt} got {got}"
    if verdict.state == "pending":
        log.info("%s; again in %.0f s", what, verdict.wait_s)
    elif verdict.state == "failed":
        log.warning("%s; it is given up, and kept to be replayed", what)
    else:
        log.warning("%s; the endpoint is disabled", what)


async def _beginning(response: httpx.Response) -> str:
    """The first 4 kB of an answer's body."""
    kept = bytearray()
    async for part in response.aiter_raw():  # a few bytes may unpack to gigabytes
        kept += part
        if len(kept) >= _KEPT_BYTES:
            break
    return bytes(kept[:_KEPT_BYTES]).decode(errors="replace").replace("\x00", "")
