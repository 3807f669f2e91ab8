"""Runs beside a run: on the other replicas of its node, where a place is free."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from ...components.base import Context, closing
from ...components.frames import Frame
from .placing import Placing


class Beside:
    """The fellows of a run on the replica `host`; see `Fellows`."""

    def __init__(self, placing: Placing[Any], host: str, context: Context, window: int) -> None:
        self._placing = placing
        self._host = host
        self._context = replace(context, fellows=None)
        self._window = window

    async def call(self, frames: AsyncIterator[Frame]) -> AsyncIterator[Frame]:
        """See `Fellows.call`."""
        node = self._placing.node.name
        async with (
            self._placing.place(self._context, wait=False, beside=self._host) as fellow,
            closing(fellow.call(node, frames, self._context, self._window)) as answers,
        ):
            async for frame in answers:
                yield frame
