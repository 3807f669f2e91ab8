"""Admission: how many sessions run at once, in all and per key; the next is refused at once."""

from __future__ import annotations

from collections import Counter
from types import TracebackType


class Ticket:
    """A place, given back by `leave` or at the end of a `with` block. Idempotent."""

    def __init__(self, admission: Admission, key: str) -> None:
        self._admission: Admission | None = admission
        self._key = key

    def leave(self) -> None:
        """Give the place back."""
        if self._admission is not None:
            self._admission.release(self._key)
            self._admission = None

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


class Admission:
    """Counts sessions of all doors that share it. Not for several threads."""

    def __init__(self, max_sessions: int, max_per_key: int) -> None:
        self._max_sessions = max_sessions
        self._max_per_key = max_per_key
        self._by_key: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many sessions are open."""
        return self._by_key.total()

    def try_enter(self, key: str = "", max_sessions: int | None = None) -> Ticket | None:
        """A place for a session of this key, None if all are taken.

        `max_sessions` is the key's own limit, None for the usual one; the anonymous key "" has
        none but the total.
        """
        limit = self._max_per_key if max_sessions is None else max_sessions
        if self.open >= self._max_sessions or (key and self._by_key[key] >= limit):
            return None
        self._by_key[key] += 1
        return Ticket(self, key)

    def release(self, key: str) -> None:
        """Give a place back; tickets do it by themselves."""
        self._by_key[key] -= 1
        if self._by_key[key] <= 0:
            del self._by_key[key]
