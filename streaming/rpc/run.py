"""`Run`: a session of any pipeline, or one run of any component, as a stream of frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...components.base import Context, closing
from ...components.errors import BadInput, nearest
from ...components.frames import End, Frame, MediaFile
from ...components.wire import motet_pb2 as pb
from ...components.wire.codec import Codec
from ...components.wire.faults import clean
from ...pipelines.pipeline import Pipeline
from ...pipelines.session import Session
from .door import Caller

_INPUT = -1
"""Stands among the open turns for the client's side of the stream."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads frames of clients. Files are named only below `input_dir`; None: not at all."""

    codec: Codec
    input_dir: Path | None = None

    def frame(self, message: pb.Frame) -> Frame:
        """The frame of a message.

        Raises:
            BadInput: it can't be read, or names a file that clients may not.
        """
        frame = self.codec.decode(message)
        if isinstance(frame, MediaFile):
            known: Any = frame.options.get("known_speakers")
            voices = cast("dict[str, Any]", known) if isinstance(known, dict) else {}
            for path in (frame.path, *voices.values()):
                self._check(str(path))
        return frame

    def _check(self, path: str) -> None:
        root = self.input_dir.resolve() if self.input_dir else None
        if root is None or not Path(path).resolve().is_relative_to(root):
            where = f"files below {root}" if root else "none, as the server has no input_dir"
            raise BadInput(f"the file may not be read; possible: {where}", where="media_file")

    def message(self, turn: int, node: str, frame: Frame) -> pb.Frame:
        """The message of an answer."""
        message = pb.Frame(turn=turn, node=clean(node))
        self.codec.encode(frame, message)
        return message


async def run_pipeline(
    pipeline: Pipeline, requests: AsyncIterator[pb.Frame], reader: Reader, caller: Caller
) -> AsyncGenerator[pb.Frame]:
    """A session: the client's frames enter their turns, what comes out goes back with its turn.

    Ends when the client has closed its side and every turn is over.

    Raises:
        BadInput: a frame can't be read, or no node takes it.
    """
    made = pipeline.session(
        deadline_s=caller.deadline_s,
        key=caller.name,
        trace=caller.trace,
        priority=caller.priority,
    )
    async with made as session:
        turns = {0, _INPUT}
        feeding = asyncio.create_task(_feed(session, requests, reader, turns))
        try:
            async for turn, node, frame in session:
                yield reader.message(turn, node, frame)
                if isinstance(frame, End):
                    turns.discard(turn)
                    if not turns:
                        break
        finally:
            feeding.cancel()
            (result,) = await asyncio.gather(feeding, return_exceptions=True)
        if isinstance(result, Exception):
            raise result


async def _feed(
    session: Session, requests: AsyncIterator[pb.Frame], reader: Reader, turns: set[int]
) -> None:
    """Put the client's frames in; at its end, or when one is wrong, nothing more comes in."""
    newest = 0
    try:
        async for request in requests:
            turn = request.turn
            if turn > newest:
                session.open(turn)
                newest = turn
                turns.add(turn)
            match request.WhichOneof("kind"):
                case "finish":
                    session.finish(turn)
                case "interrupt":
                    session.interrupt(turn or None)
                case _:
                    await session.send(reader.frame(request), turn=turn)
    except Exception:
        await session.close()
        raise
    turns.discard(_INPUT)
    for turn in turns:
        session.finish(turn)
    if not turns:
        await session.close()


async def run_component(
    pipeline: Pipeline, requests: AsyncIterator[pb.Frame], reader: Reader, caller: Caller
) -> AsyncGenerator[pb.Frame]:
    """One run of one component, without the graph around it.

    Raises:
        BadInput: the pipeline has no such node, or a frame can't be read.
        MotetError: what the component raises.
    """
    version = pipeline.pick()
    if caller.node not in version.graph.nodes:
        raise BadInput(
            f"{pipeline.name!r} has no node {caller.node!r};"
            f" {nearest(caller.node, list(version.graph.nodes))}",
            where="motet-node",
            param="motet-node",
        )

    async def frames() -> AsyncIterator[Frame]:
        async for request in requests:
            if request.WhichOneof("kind") == "finish":
                return
            yield reader.frame(request)

    context = Context(
        f"{pipeline.name} {caller.node}",
        deadline_s=caller.deadline_s,
        trace=caller.trace,
        key=caller.name,
        priority=caller.priority,
    )
    async with closing(version.run(caller.node, frames(), context)) as answers:
        async for frame in answers:
            yield reader.message(0, caller.node, frame)
    yield reader.message(0, "", End())
