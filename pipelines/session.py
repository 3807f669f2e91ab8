"""A session: one conversation or request on a pipeline, made of turns that can be interrupted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from ..components.base import Context
from ..components.errors import BadInput, DeadlineExceeded, MotetError, Overloaded
from ..components.frames import End, Fault, Frame
from .channel import Channel
from .graph import Graph
from .lane import Lane, Output
from .runtimes.base import Runtime


class Session:
    """Frames in, frames out, on a running graph.

    Turn 0 is the standing stream: what a client says as it says it. Each further turn, numbered by
    the caller upwards from 1, is a generation of answers: `interrupt` ends it, cancels its work
    down to the engines, and drops what it had made where it would come out. Everything is bounded;
    `send` waits where a queue is full, `offer` refuses. Leaving the context cancels what still
    runs and waits for it: nothing of a session outlives it.

    Iterate from one task: (turn, node, frame), node "" where the session itself speaks. A `Fault`
    says why a turn fails, an `End` that nothing more comes in it. The iteration ends with `close`.
    """

    def __init__(self, graph: Graph, runtime: Runtime, context: Context) -> None:
        self.id = context.session_id
        self.graph = graph
        self._runtime = runtime
        self._context = context
        self._group = asyncio.TaskGroup()
        self._output: Channel[Output] = Channel(graph.spec.sessions.max_output_frames)
        self._lanes: dict[int, Lane] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._last = 0
        self._closed = False

    async def __aenter__(self) -> Session:
        await self._group.__aenter__()
        self._lane(0, self._context)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
        # The group only waits here: its tasks are cancelled, and an error of the caller stays bare.
        await self._group.__aexit__(None, None, None)

    async def send(self, frame: Frame, *, turn: int = 0) -> bool:
        """Send a frame into an open turn, waiting while its queues are full.

        False when the turn is over: its end, which the iteration tells, is not known to a sender
        at the same moment, so a late frame is no fault.

        Raises:
            BadInput: the turn wasn't opened yet, or no node takes such a frame.
        """
        targets = self._targets(frame)
        lane = self._opened(turn)
        return lane is not None and await lane.send(frame, targets)

    def offer(self, frame: Frame, *, turn: int = 0) -> bool:
        """Send a frame without waiting; False when a queue is full or the turn is over.

        Raises:
            BadInput: the turn wasn't opened yet, or no node takes such a frame.
        """
        targets = self._targets(frame)
        lane = self._opened(turn)
        return lane is not None and lane.offer(frame, targets)

    def start(self, turn: int, *frames: Frame, deadline_s: float | None = None) -> None:
        """Open a turn with these frames as its whole input; those that the entry queues have no
        room for go in as it comes free.

        `deadline_s`, on `time.monotonic`'s clock, ends it with a `Fault` when it passes.

        Raises:
            BadInput: `turn` isn't above every earlier one, or no node takes one of the frames.
        """
        addressed = [(frame, self._targets(frame)) for frame in frames]
        lane = self.open(turn, deadline_s=deadline_s)
        for number, (frame, targets) in enumerate(addressed):
            if not lane.offer(frame, targets):
                feeding = self._feed(lane, addressed[number:])
                self._group.create_task(feeding, name=f"{self.id} feeds {turn}")
                return
        lane.finish()

    async def _feed(self, lane: Lane, addressed: Sequence[tuple[Frame, tuple[str, ...]]]) -> None:
        try:
            for frame, targets in addressed:
                await lane.send(frame, targets)
        except Overloaded as error:
            self._give_up(lane, error)
        lane.finish()

    def open(self, turn: int, *, deadline_s: float | None = None) -> Lane:
        """Open a turn whose input comes by `send`; `finish` ends its input.

        Raises:
            BadInput: the session is closed, or `turn` isn't above every earlier one.
        """
        if self._closed:
            raise BadInput("the session is closed", where=self.id)
        if turn <= self._last:
            raise BadInput(f"turn {turn} isn't above the last one, {self._last}", where=self.id)
        self._last = turn
        deadline_s = self._context.deadline_s if deadline_s is None else deadline_s
        lane = self._lane(turn, replace(self._context, turn=turn, deadline_s=deadline_s))
        if deadline_s is not None:
            left_s = max(0.0, deadline_s - time.monotonic())
            late = DeadlineExceeded(f"turn {turn} didn't end by its deadline")
            loop = asyncio.get_running_loop()
            self._timers[turn] = loop.call_later(left_s, self._give_up, lane, late)
        return lane

    def finish(self, turn: int = 0) -> None:
        """No more frames come into the turn; it ends when what it has is answered."""
        lane = self._lanes.get(turn)
        if lane is not None:
            lane.finish()

    def interrupt(self, turn: int | None = None) -> None:
        """Cut off one turn, or all but the standing stream. Turns already over are left alone."""
        for number, lane in list(self._lanes.items()):
            if (number == turn) if turn is not None else number > 0:
                lane.cancel()

    def fail(self, error: MotetError) -> None:
        """End every turn, the standing stream too, with a `Fault` that stands for `error`."""
        for lane in list(self._lanes.values()):
            self._give_up(lane, error)

    def _give_up(self, lane: Lane, error: MotetError) -> None:
        """Cut the turn off; unlike after `interrupt`, its reader is told why."""
        if not lane.over and not lane.cancelled:
            self._output.force((lane.turn, "", Fault("", error.code, str(error))))
            lane.cancel()

    async def close(self) -> None:
        """End the session: cancel every turn, end the iteration. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for lane in list(self._lanes.values()):
            lane.cancel()
        self._output.close()

    def __aiter__(self) -> Session:
        return self

    async def __anext__(self) -> Output:
        while True:
            turn, node, frame = await anext(self._output)
            lane = self._lanes.get(turn)
            if lane is None:
                continue
            if isinstance(frame, End):
                del self._lanes[turn]
                if (timer := self._timers.pop(turn, None)) is not None:
                    timer.cancel()
            elif lane.cancelled and node:
                continue
            return turn, node, frame

    def _lane(self, turn: int, context: Context) -> Lane:
        standing = turn == 0 and self.graph.spec.conversation is not None
        lane = Lane(
            turn, self.graph, self._runtime, context, self._output, self._group, standing=standing
        )
        self._lanes[turn] = lane
        return lane

    def _opened(self, turn: int) -> Lane | None:
        """The lane of a turn; None once its end was read."""
        if turn > self._last:
            raise BadInput(f"turn {turn} isn't open", where=self.id)
        return self._lanes.get(turn)

    def _targets(self, frame: Frame) -> tuple[str, ...]:
        targets = self.graph.entries(type(frame))
        if not targets:
            raise BadInput(
                f"no node of {self.graph.name!r} takes a {type(frame).__name__}", where=self.id
            )
        return targets
