"""The events that a client under test has received, and waiting for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


class EventLog:
    """`events` in the order they came."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def note(self, event: Event) -> None:
        """One has come."""
        self.events.append(event)
        self._news.set()

    async def until(
        self, kind: str, count: int = 1, where: Callable[[Event], bool] = lambda _: True
    ) -> Event:
        """The `count`th event of that type that fits, waiting for it."""
        async with asyncio.timeout(30):
            while True:
                found = [e for e in self.events if e["type"] == kind and where(e)]
                if len(found) >= count:
                    return found[count - 1]
                self._news.clear()
                await self._news.wait()
