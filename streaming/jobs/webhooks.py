"""Standard Webhooks: secrets, signatures, the schedule of attempts, and what an answer means."""

from __future__ import annotations

import base64
import binascii
import email.utils
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Literal

from ...components.errors import BadInput

PREFIX = "whsec_"
SCHEDULE_S = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds from each attempt to the next: ten attempts over 75.6 hours."""

LONGEST_WAIT_S = 86_400.0
TOLERANCE_S = 300
_JITTER = 0.1
_THROTTLED = (429, 502, 503, 504)


def new_secret() -> str:
    """A fresh secret: 32 random bytes, as Standard Webhooks writes them."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """The key of a secret.

    Raises:
        BadInput: it isn't "whsec_" with base64 of 24 to 64 bytes.
    """
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"a secret is {PREFIX} and base64", param="secret") from error
    if not 24 <= len(key) <= 64:
        raise BadInput(f"a secret has 24 to 64 bytes, got {len(key)}", param="secret")
    return key


def sign(secret: str, message_id: str, timestamp_s: int, body: str) -> str:
    """The signature of one attempt with one secret."""
    signed = f"{message_id}.{timestamp_s}.{body}".encode()
    digest = hmac.new(secret_bytes(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def headers(
    secrets_: Sequence[str], message_id: str, timestamp_s: int, body: str
) -> dict[str, str]:
    """The headers of one attempt; a signature for each secret while they are rotated."""
    signatures = [sign(secret, message_id, timestamp_s, body) for secret in secrets_]
    return {
        "content-type": "application/json",
        "accept-encoding": "identity",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(signatures),
        "user-agent": "motet-webhooks/1",
    }


def verify(secret: str, received: Mapping[str, str], body: str, *, now_s: float) -> bool:
    """Whether a delivery was signed with this secret within the last five minutes."""
    message_id = received.get("webhook-id", "")
    stamp = received.get("webhook-timestamp", "")
    if not stamp.isdigit() or abs(int(stamp) - now_s) > TOLERANCE_S:
        return False
    expected = sign(secret, message_id, int(stamp), body)
    given = received.get("webhook-signature", "").split()
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a delivery after an attempt; `wait_s` until the next, where there is one."""

    state: Literal["delivered", "pending", "failed", "gone"]
    wait_s: float = 0.0


def judge(
    attempt: int,
    status: int | None,
    retry_after: str | None,
    *,
    now: datetime,
    random: Random,
) -> Verdict:
    """What follows attempt number `attempt` (from 1), which got `status` (None: no answer).

    2xx delivers, 410 ends the endpoint, everything else (redirects too) is tried again by the
    schedule, later where the receiver asks for it.
    """
    if status is not None and 200 <= status < 300:
        return Verdict("delivered")
    if status == 410:
        return Verdict("gone")
    if attempt >= len(SCHEDULE_S):
        return Verdict("failed")
    wait_s = SCHEDULE_S[attempt] * (1 + random.uniform(-_JITTER, _JITTER))
    asked_s = retry_after_s(retry_after, now) if status in _THROTTLED else None
    return Verdict("pending", min(max(wait_s, asked_s or 0.0), LONGEST_WAIT_S))


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` asks for, as a number or a date; None where it says neither."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        at = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError, IndexError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
