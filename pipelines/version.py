"""One version of a pipeline: a graph on a runtime, and the sessions that run on it to their end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import contextmanager

from ..components.base import Context, closing
from ..components.errors import MotetError
from ..components.frames import End, Fault, Frame
from .graph import Graph
from .lane import Lane, Output
from .runtimes.base import Runtime
from .session import Session

CALLERS_FAULTS = frozenset({"invalid_value", "too_large", "stopping"})
"""Codes of faults that say nothing against a version: the caller's doing, or our own."""


class Stopping(MotetError):
    """What served this ends; asking again leads to what takes its place."""

    code = "stopping"


class Version:
    """Counts how its runs (requests, and turns of conversations) end: `runs`, of them `faults`.

    `role` is "stable" (takes new sessions), "canary" (takes a share of them), or "retiring" (takes
    none). `ended` hears of each run that ends, and whether it failed.
    """

    def __init__(
        self,
        number: str,
        graph: Graph,
        runtime: Runtime,
        *,
        ended: Callable[[Version, bool], None] | None = None,
    ) -> None:
        self.id = number
        self.graph = graph
        self.runtime = runtime
        self.role = "starting"
        self.runs = 0
        self.faults = 0
        self.sessions: dict[str, PipelineSession] = {}
        self._holds = 0
        self._ended = ended
        self._emptied = asyncio.Event()

    @property
    def name(self) -> str:
        """The pipeline's name, which clients use as `model`."""
        return self.graph.name

    def session(
        self,
        *,
        session_id: str | None = None,
        deadline_s: float | None = None,
        key: str = "",
        trace: str = "",
        priority: int = 0,
    ) -> PipelineSession:
        """A new session of this version, to be entered at once; see `Pipeline.session`."""
        chosen = session_id or secrets.token_hex(8)
        context = Context(chosen, deadline_s=deadline_s, key=key, trace=trace, priority=priority)
        return PipelineSession(self, context)

    async def run(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncGenerator[Frame]:
        """One run of one component, without the graph around it; see `Runtime.call`."""
        with self.held():
            try:
                async with closing(self.runtime.call(node, frames, context)) as answers:
                    async for frame in answers:
                        yield frame
            except MotetError as error:
                if error.code not in CALLERS_FAULTS:
                    self.count(fault=True)
                raise
            self.count(fault=False)

    @contextmanager
    def held(self) -> Generator[Version]:
        """Keep the version open meanwhile, as a session does."""
        self._holds += 1
        try:
            yield self
        finally:
            self._holds -= 1
            self._tell()

    def enter(self, session: PipelineSession) -> None:
        """A session begins."""
        self.sessions[session.id] = session

    def leave(self, session: PipelineSession) -> None:
        """A session is over."""
        self.sessions.pop(session.id, None)
        self._tell()

    def _tell(self) -> None:
        if not self.sessions and not self._holds:
            self._emptied.set()

    def count(self, *, fault: bool) -> None:
        """A run has ended."""
        self.runs += 1
        self.faults += fault
        if self._ended is not None:
            self._ended(self, fault)

    async def emptied(self, within_s: float) -> bool:
        """Wait until no session is left; False if there still is one after `within_s`."""
        while self.sessions or self._holds:
            self._emptied.clear()
            try:
                async with asyncio.timeout(within_s):
                    await self._emptied.wait()
            except TimeoutError:
                return False
        return True

    def evict(self) -> None:
        """Cut off what still runs, each turn with a `Fault` that says so."""
        error = Stopping(f"version {self.id} of the pipeline has ended; ask again")
        for session in list(self.sessions.values()):
            session.evict(error)

    async def close_sessions(self) -> None:
        """End the sessions whose clients don't leave."""
        for session in list(self.sessions.values()):
            await session.close()


class PipelineSession(Session):
    """A session that counts among its version's while it is open.

    `evicted` is set when its version ends before it does: whoever holds it should let it go.
    """

    def __init__(self, version: Version, context: Context) -> None:
        super().__init__(version.graph, version.runtime, context)
        self.version = version
        self.evicted = asyncio.Event()
        self._opened_s: dict[int, float] = {}
        self._answered: set[int] = set()
        self._failed: set[int] = set()

    async def __aenter__(self) -> PipelineSession:
        self.version.enter(self)
        await super().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            self.version.leave(self)
            for turn in self._answered - self._failed:
                # What was left while it answered is none the worse for it.
                if turn or self.graph.spec.conversation is None:
                    self.version.count(fault=False)

    def evict(self, error: MotetError) -> None:
        """End every turn with this error."""
        self.evicted.set()
        self.fail(error)

    def open(self, turn: int, *, deadline_s: float | None = None) -> Lane:
        """See `Session.open`."""
        lane = super().open(turn, deadline_s=deadline_s)
        self._opened_s[turn] = asyncio.get_running_loop().time()
        return lane

    def interrupt(self, turn: int | None = None) -> None:
        """See `Session.interrupt`. A turn that hasn't answered in all the time that its
        conversation gives it has failed."""
        spec = self.graph.spec.conversation
        silent = self._opened_s.keys() - self._answered - self._failed
        if spec is not None:
            late_s = asyncio.get_running_loop().time() - 0.9 * spec.first_token_timeout_s
            for one in silent if turn is None else silent & {turn}:
                if self._opened_s[one] <= late_s:
                    self._fail(one)
        super().interrupt(turn)

    async def __anext__(self) -> Output:
        turn, _, frame = output = await super().__anext__()
        if isinstance(frame, Fault):
            if frame.code not in CALLERS_FAULTS:
                self._fail(turn)
            elif turn:
                self._failed.add(turn)
        elif isinstance(frame, End):
            if turn not in self._failed and (turn in self._answered or not frame.interrupted):
                self.version.count(fault=False)
            self._forget(turn)
        else:
            self._answered.add(turn)
        return output

    def _fail(self, turn: int) -> None:
        """A turn fails once, the standing stream as often as it does."""
        if turn == 0 or turn not in self._failed:
            self.version.count(fault=True)
        self._failed.add(turn)

    def _forget(self, turn: int) -> None:
        self._opened_s.pop(turn, None)
        self._answered.discard(turn)
        self._failed.discard(turn)
