"""A pipeline: a graph on a runtime, open for sessions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from types import TracebackType

from ..components.base import Context
from ..components.errors import Overloaded, error_of
from ..components.frames import End, Fault, Frame
from .graph import Graph
from .runtimes.base import Runtime
from .runtimes.local import LocalRuntime
from .session import Session


class Pipeline:
    """Use as an async context manager: entering loads the models, leaving frees them.

    ```python
    async with Pipeline(load("voice")) as pipeline, pipeline.session() as session:
        await session.send(frame)
    ```
    """

    def __init__(self, graph: Graph, runtime: Runtime | None = None) -> None:
        self.graph = graph
        self.runtime: Runtime = runtime or LocalRuntime(graph)
        self.sessions: set[str] = set()
        self.draining = False

    @property
    def name(self) -> str:
        """The name that clients use as `model`."""
        return self.graph.name

    @property
    def ready(self) -> bool:
        """Whether a session can begin now."""
        return self.runtime.ready and not self.draining

    async def __aenter__(self) -> Pipeline:
        await self.runtime.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.runtime.close()

    def session(
        self,
        *,
        session_id: str | None = None,
        deadline_s: float | None = None,
        key: str = "",
        trace: str = "",
    ) -> PipelineSession:
        """A new session, to be entered; `deadline_s` is on `time.monotonic`'s clock.

        Raises:
            Overloaded: the pipeline has its configured number of sessions, or drains.
        """
        if self.draining:
            raise Overloaded("the server is shutting down", where=self.name, retry_after_s=5)
        most = self.graph.spec.sessions.max_sessions
        if len(self.sessions) >= most:
            raise Overloaded(f"all {most} sessions are taken", where=self.name, retry_after_s=10)
        chosen = session_id or secrets.token_hex(8)
        context = Context(chosen, deadline_s=deadline_s, key=key, trace=trace)
        return PipelineSession(self, context)

    async def ask(
        self, *frames: Frame, deadline_s: float | None = None, key: str = "", trace: str = ""
    ) -> AsyncGenerator[Frame]:
        """One request in a session of its own: its frames in, the answer's frames out.

        Closing the iterator, as leaving `contextlib.aclosing` does, cancels the work.

        Raises:
            Overloaded: no session is free, or a node's queue is full.
            MotetError: what a component's fault stands for.
        """
        async with self.session(deadline_s=deadline_s, key=key, trace=trace) as session:
            session.start(1, *frames, deadline_s=deadline_s)
            async for turn, node, frame in session:
                if turn != 1:
                    continue
                if isinstance(frame, End):
                    return
                if isinstance(frame, Fault):
                    raise error_of(frame.code, frame.message, where=node)
                yield frame


class PipelineSession(Session):
    """A session that counts among its pipeline's while it is open."""

    def __init__(self, pipeline: Pipeline, context: Context) -> None:
        super().__init__(pipeline.graph, pipeline.runtime, context)
        self._pipeline = pipeline

    async def __aenter__(self) -> PipelineSession:
        self._pipeline.sessions.add(self.id)
        await super().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            self._pipeline.sessions.discard(self.id)
