"""Standing runs leave a replica that drains: between two turns, to one that has room for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from ...components.base import Context, Fellows, closing
from ...components.errors import MotetError
from ...components.frames import Frame, Prompt
from ..channel import Channel
from ..graph import Graph
from .standing import Standing

LOOK_S = 0.1


class Host(Protocol):
    """A replica that holds a place for a run. `draining` is set while it is to go."""

    @property
    def name(self) -> str:
        """Its name among the replicas of its node."""
        ...

    @property
    def draining(self) -> asyncio.Event:
        """Set once no more runs are placed there."""
        ...

    def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        """Run its component; see `Runtime.call`."""
        ...


Lease = Callable[[bool], AbstractAsyncContextManager[Host]]
"""Holds a place while entered. Told True it waits for one, else it raises `Overloaded` at once."""

Beside = Callable[[str], Fellows | None]
"""The fellows of a run on the replica of this name."""


def stands(graph: Graph, node: str, frames: AsyncIterator[Frame], context: Context) -> bool:
    """Whether this is a run of a conversation's standing stream, which may be started anew."""
    standing = graph.spec.conversation is not None and context.turn == 0
    return standing and isinstance(frames, Channel) and Prompt not in graph.nodes[node].accepts


@dataclass(slots=True)
class _Held:
    host: Host
    stack: AsyncExitStack


class _Stretch(AsyncIterator[Frame]):
    """The frames of a standing run until it moves."""

    def __init__(self, frames: Channel[Frame], standing: Standing, first: Iterable[Frame]) -> None:
        self.left: deque[Frame] = deque(first)
        self._frames = frames
        self._standing = standing
        self._over = False
        self._clock = asyncio.get_running_loop().time

    def finish(self) -> None:
        """End it here; what comes is for the next one."""
        self._over = True
        self._frames.interrupt()

    async def __anext__(self) -> Frame:
        if self._over:
            raise StopAsyncIteration
        if self.left:
            return self.left.popleft()
        frame = await anext(self._frames)
        if self._over:
            self.left.append(frame)
            raise StopAsyncIteration
        self._standing.took(frame, self._clock())
        return frame


async def hosted(
    graph: Graph,
    node: str,
    frames: AsyncIterator[Frame],
    context: Context,
    lease: Lease,
    *,
    window: int,
    beside: Beside | None = None,
) -> AsyncIterator[Frame]:
    """Run a component on a leased replica, a standing run on several; see `Runtime.call`.

    Only a run that stays where it is has fellows.
    """
    if stands(graph, node, frames, context):
        async with closing(moving(graph, node, frames, context, lease, window=window)) as answers:
            async for frame in answers:
                yield frame
        return
    async with lease(True) as host:
        lending = replace(context, fellows=beside(host.name) if beside else None)
        async with closing(host.call(node, frames, lending, window)) as answers:
            async for frame in answers:
                yield frame


async def moving(
    graph: Graph,
    node: str,
    frames: AsyncIterator[Frame],
    context: Context,
    lease: Lease,
    *,
    window: int,
) -> AsyncIterator[Frame]:
    """Run a component on one replica after the other, as they drain; see `Runtime.call`.

    The next place is held before the last is left. Where there is none, the run stays, and goes
    down with its replica at the drain deadline.
    """
    if not isinstance(frames, Channel):
        raise TypeError(f"a standing run reads a Channel, got {type(frames).__name__}")
    standing = Standing(graph.nodes[node])
    held = await _take(lease, wait=True)
    first: Iterable[Frame] = ()
    while True:
        stretch = _Stretch(frames, standing, first)
        watch = asyncio.create_task(_leave(held.host, standing, stretch, lease), name=f"at {node}")
        try:
            answers = held.host.call(node, stretch, context, window)
            async with closing(answers):
                async for frame in answers:
                    out = standing.gave(frame)
                    if out is not None:
                        yield out
        except BaseException:
            await _release(watch)
            raise
        finally:
            await held.stack.aclose()
        after = await _settled(watch)
        if after is None:
            return
        held = after
        first = [*standing.moved(), *stretch.left]


async def _take(lease: Lease, *, wait: bool) -> _Held:
    stack = AsyncExitStack()
    return _Held(await stack.enter_async_context(lease(wait)), stack)


async def _leave(host: Host, standing: Standing, stretch: _Stretch, lease: Lease) -> _Held:
    """Wait until the host drains, a turn is over and another has room; then end the stretch."""
    clock = asyncio.get_running_loop().time
    while True:
        await host.draining.wait()
        if standing.between_turns(clock()):
            try:
                after = await _take(lease, wait=False)
            except MotetError:
                after = None
            # Taking a place may have taken time, in which a turn has begun.
            if after is not None and standing.between_turns(clock()):
                stretch.finish()
                return after
            if after is not None:
                await after.stack.aclose()
        await asyncio.sleep(LOOK_S)


async def _settled(watch: asyncio.Task[_Held]) -> _Held | None:
    """The place to go on at; None when the run is over."""
    watch.cancel()
    await asyncio.wait([watch])
    return None if watch.cancelled() else watch.result()


async def _release(watch: asyncio.Task[_Held]) -> None:
    after = await _settled(watch)
    if after is not None:
        await after.stack.aclose()
