"""A cache of what is costly to compute: made once for all who want it, bounded, pinned in use."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..pixels import Pixels


class Sized(Protocol):
    """Something that knows what memory it takes."""

    @property
    def size_bytes(self) -> int:
        """Its memory in bytes."""
        ...


Value = TypeVar("Value", bound=Sized)


@dataclass(slots=True, eq=False)
class _Entry(Generic[Value]):
    """A value or its making; `users` hold it now."""

    making: asyncio.Future[Value]
    users: int = 0
    size_bytes: int = 0


class SharedCache(Generic[Value]):
    """Values by key, at most `limit_bytes` of those that nobody holds, the longest unused go first.

    Values that are held stay, whatever they take. A value that several want at once is made once;
    when one who waits is cancelled the others still get it, when all are its making stops.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self.held_bytes = 0
        self._entries: OrderedDict[str, _Entry[Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    @contextmanager
    def hold(
        self, key: str, make: Callable[[], Awaitable[Value]]
    ) -> Generator[asyncio.Future[Value]]:
        """The value of `key` to be awaited, by `make` if it isn't there; kept while this lasts.

        Awaiting raises what `make` raised, for all who waited for it; the next one tries anew.
        """
        entry = self._enter(key, make)
        entry.users += 1
        try:
            # Shielded: the value belongs to everyone who waits for it.
            yield asyncio.shield(entry.making)
        finally:
            entry.users -= 1
            self._leave(key, entry)

    def _enter(self, key: str, make: Callable[[], Awaitable[Value]]) -> _Entry[Value]:
        entry = self._entries.get(key)
        if entry is not None:
            self.hits += 1
            self._entries.move_to_end(key)
            return entry
        self.misses += 1
        making = asyncio.ensure_future(make())
        entry = self._entries[key] = _Entry(making)
        making.add_done_callback(lambda done: self._count(entry, done))
        return entry

    def _count(self, entry: _Entry[Value], done: asyncio.Future[Value]) -> None:
        if not done.cancelled() and done.exception() is None:
            entry.size_bytes = done.result().size_bytes
            self.held_bytes += entry.size_bytes

    def _leave(self, key: str, entry: _Entry[Value]) -> None:
        if entry.users:
            return
        task = entry.making
        if not task.done():
            task.cancel()
        if not task.done() or task.cancelled() or task.exception() is not None:
            if self._entries.get(key) is entry:
                del self._entries[key]
            return
        self._trim()

    def _trim(self) -> None:
        """Let the longest unused go until the rest fits."""
        for key, entry in list(self._entries.items()):
            if self.held_bytes <= self.limit_bytes:
                return
            if not entry.users and entry.making.done():
                del self._entries[key]
                self.held_bytes -= entry.size_bytes

    async def close(self) -> None:
        """Stop what is being made and forget everything."""
        tasks = [entry.making for entry in self._entries.values() if not entry.making.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._entries.clear()
        self.held_bytes = 0


def digest_of(*parts: bytes | str | Pixels) -> str:
    """A hash of bytes, texts and arrays, each with its length."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        data = raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).reshape(-1).data
        shape = "" if isinstance(raw, bytes) else str(raw.shape)
        digest.update(f"{len(data)} {shape};".encode())
        digest.update(data)
    return digest.hexdigest()
