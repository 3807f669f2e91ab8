"""One request on a pipeline whose input may be longer than an entry queue holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from ..components.errors import error_of
from ..components.frames import End, Fault, Frame
from ..pipelines.pipeline import Pipeline
from ..pipelines.version import Stopping


async def answers(
    pipeline: Pipeline,
    frames: Sequence[Frame],
    *,
    key: str = "",
    trace: str = "",
    priority: int = 0,
) -> AsyncGenerator[Frame]:
    """Everything that comes out for these frames. Closing the iterator cancels the work.

    Raises:
        Overloaded: no session is free.
        MotetError: what a component's fault stands for.
    """
    async with pipeline.session(key=key, trace=trace, priority=priority) as session:
        session.open(1)
        for frame in frames:
            await session.send(frame, turn=1)
        session.finish(1)
        async for turn, node, frame in session:
            if turn != 1:
                continue
            if isinstance(frame, End):
                return
            if isinstance(frame, Fault):
                raise error_of(frame.code, frame.message, where=node)
            yield frame
        raise Stopping("the pipeline was closed before it had answered", where=pipeline.name)
