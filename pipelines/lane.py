"""One turn of a session: the tasks of the nodes it reaches, and the channels between them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ..components.base import Context, closing
from ..components.errors import ComponentFailed, MotetError
from ..components.frames import Control, End, Fault, Frame, TranscriptionSettings, TurnSettings
from .channel import Channel
from .graph import SINKS, SOURCES, Graph
from .runtimes.base import Runtime

MAX_FAILURES = 5
SETTINGS = (TurnSettings, TranscriptionSettings)

Output = tuple[int, str, Frame]
"""A frame that comes out: its turn, the node it left, and itself."""


class Lane:
    """Runs one turn. A node starts with its first frame, and ends when all that feed it have.

    `standing` lanes outlive a failing component: it is started anew, with the settings it was
    given, on the frames that follow, up to `MAX_FAILURES` times in a row. Any other lane ends at
    its first `Fault`.
    """

    def __init__(
        self,
        turn: int,
        graph: Graph,
        runtime: Runtime,
        context: Context,
        output: Channel[Output],
        group: asyncio.TaskGroup,
        *,
        standing: bool = False,
    ) -> None:
        self.turn = turn
        self.over = False
        self.cancelled = False
        self._graph = graph
        self._runtime = runtime
        self._context = context
        self._output = output
        self._group = group
        self._standing = standing
        self._inboxes: dict[str, Channel[Frame]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: set[str] = set()
        self._ended: set[str] = set()
        self._settings: dict[str, dict[type[Frame], Frame]] = {}

    async def send(self, frame: Frame, targets: tuple[str, ...]) -> bool:
        """Hand a frame to the entry nodes, waiting where they are full; False if all are over."""
        sent = False
        self._note(frame, targets)
        for name in targets:
            sent = await self._inbox(name).put(frame) or sent
        return sent

    def offer(self, frame: Frame, targets: tuple[str, ...]) -> bool:
        """Hand a frame over without waiting: to all entry nodes, or to none (False) if one of
        them is full or over."""
        inboxes = [self._inbox(name) for name in targets]
        if not all(inbox.has_room for inbox in inboxes):
            return False
        self._note(frame, targets)
        for inbox in inboxes:
            inbox.offer(frame)
        return True

    def _note(self, frame: Frame, targets: tuple[str, ...]) -> None:
        """Keep the newest settings of each node, which one that is started anew must know."""
        if isinstance(frame, SETTINGS):
            for name in targets:
                self._settings.setdefault(name, {})[type(frame)] = frame

    def finish(self) -> None:
        """No more frames come in from outside."""
        self._done |= SOURCES
        self._settle()

    def cancel(self) -> None:
        """Stop all work of the turn at once; nothing of it comes out any more."""
        self.cancelled = True
        self._end_all()
        self._settle()

    def _end_all(self, *, but: str = "") -> None:
        """End every node but one, each by one cancellation: a second would cut off its cleanup."""
        for name in self._tasks.keys() - self._ended - {but}:
            self._ended.add(name)
            self._tasks[name].cancel()
        for inbox in self._inboxes.values():
            inbox.close()
        self._done |= SOURCES | (self._graph.nodes.keys() - self._tasks.keys())

    def _inbox(self, name: str) -> Channel[Frame]:
        inbox = self._inboxes.get(name)
        if inbox is None:
            edge = next(edge for edge in self._graph.edges if edge.target == name)
            queue = Channel[Frame](*edge.settings.queue, name=name, keep=_is_control)
            inbox = self._inboxes[name] = queue
            if name in self._done or self.cancelled:
                inbox.close()
            else:
                self._start(name, inbox)
        return inbox

    def _start(self, name: str, inbox: Channel[Frame]) -> None:
        label = f"{self._context.session_id} {name} {self.turn}"
        task = self._tasks[name] = self._group.create_task(self._drive(name, inbox), name=label)
        # A callback, since a task that is cancelled before its first step runs no `finally`.
        task.add_done_callback(lambda done: self._finished(name, inbox, done))

    def _finished(self, name: str, inbox: Channel[Frame], task: asyncio.Task[None]) -> None:
        with suppress(asyncio.CancelledError):
            # Asked for, else it keeps its cancellation, and that all that ran, in a ring.
            task.exception()
        inbox.close()
        self._done.add(name)
        self._settle()

    async def _drive(self, name: str, inbox: Channel[Frame]) -> None:
        failures = known = 0
        while not self.cancelled:
            before = inbox.taken + known
            error = await self._run(name, inbox)
            if error is None:
                return
            failures = failures + 1 if inbox.taken <= before else 1
            await self._output.put((self.turn, name, Fault(name, error.code, str(error))))
            if not self._standing or failures >= MAX_FAILURES or inbox.closed:
                # After a fault nothing of the turn is worth finishing.
                self._end_all(but=name)
                return
            settings = list(self._settings.get(name, {}).values())
            inbox.put_back(settings)
            known = len(settings)

    async def _run(self, name: str, inbox: Channel[Frame]) -> MotetError | None:
        """One run of the node's component; the error that ended it, None if it came to its end."""
        try:
            async with closing(self._runtime.call(name, inbox, self._context)) as frames:
                async for frame in frames:
                    await self._pass_on(name, frame)
        except MotetError as error:
            return error
        except Exception as error:
            failed = ComponentFailed(f"{type(error).__name__}: {error}", where=name)
            failed.__cause__ = error
            return failed
        return None

    async def _pass_on(self, name: str, frame: Frame) -> None:
        kind = type(frame)
        if not self._graph.may_emit(name, kind):
            declared = ", ".join(one.__name__ for one in self._graph.nodes[name].emits)
            message = f"emitted {kind.__name__}, which its `emits` doesn't name: {declared}"
            raise ComponentFailed(message, where=name)
        outlets = self._graph.outlets[name]
        control = isinstance(frame, Control)
        # First what comes out, so that nothing that it brings about below comes out before it.
        if not control and any(
            edge.target in SINKS and (edge.takes(kind) or isinstance(frame, Fault))
            for edge in outlets
        ):
            await self._output.put((self.turn, name, frame))
        for edge in outlets:
            if edge.target not in SINKS and (control or edge.takes(kind)):
                self._note(frame, (edge.target,))
                await self._inbox(edge.target).put(frame)

    def _settle(self) -> None:
        """Close the inboxes that nothing feeds any more; end the lane when no node is left."""
        for name in self._graph.order:
            if name in self._done or not self._graph.producers[name] <= self._done:
                continue
            if name in self._tasks:
                self._inboxes[name].close()
            else:
                self._done.add(name)
        if not self.over and self._done >= SOURCES and set(self._graph.nodes) <= self._done:
            self.over = True
            self._output.force((self.turn, "", End(interrupted=self.cancelled)))


def _is_control(frame: Frame) -> bool:
    return isinstance(frame, Control)
