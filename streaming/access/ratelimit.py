"""How many requests a key may make: a bucket per key that fills as time passes."""

from __future__ import annotations

from dataclasses import dataclass

from ...components.errors import Overloaded


class RateLimited(Overloaded):
    """The key has made its requests for now; `retry_after_s` says when the next may come."""

    code = "rate_limited"


@dataclass(slots=True)
class Bucket:
    """What a key has left, and when that was so."""

    left: float
    at_s: float


class RateLimiter:
    """Token buckets of a minute's requests each; the clock is passed in. Holds one bucket a key."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def take(self, key: str, per_minute: int | None, now_s: float) -> None:
        """Count one request of a key that may make so many a minute, None for any number.

        Raises:
            RateLimited: it has none left.
        """
        if per_minute is None:
            return
        bucket = self._buckets.setdefault(key, Bucket(per_minute, now_s))
        filled = bucket.left + (now_s - bucket.at_s) * per_minute / 60
        bucket.left, bucket.at_s = min(per_minute, filled), now_s
        if bucket.left < 1:
            wait_s = (1 - bucket.left) * 60 / per_minute
            raise RateLimited(
                f"this key may make {per_minute} requests a minute; the next in {wait_s:.1f} s",
                where="key",
                retry_after_s=wait_s,
            )
        bucket.left -= 1
