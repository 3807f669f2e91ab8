"""Runs beside a run: on the other replicas of its node, where a place is free."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from ...components.base import Context, closing
from ...components.frames import Frame
from .moving import Host


class Beside:
    """The fellows of a run; see `Fellows`. `lease` holds a place on one of them while entered, or
    raises `Overloaded` at once.
    """

    def __init__(
        self,
        node: str,
        lease: Callable[[], AbstractAsyncContextManager[Host]],
        context: Context,
        window: int,
    ) -> None:
        self._node = node
        self._lease = lease
        self._context = replace(context, fellows=None)
        self._window = window

    async def call(self, frames: AsyncIterator[Frame]) -> AsyncIterator[Frame]:
        """See `Fellows.call`."""
        async with (
            self._lease() as fellow,
            closing(fellow.call(self._node, frames, self._context, self._window)) as answers,
        ):
            async for frame in answers:
                yield frame
