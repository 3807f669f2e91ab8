"""A pipeline: a name with a graph on a runtime behind it, open for sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..components.base import Setup
from ..components.errors import Overloaded, error_of
from ..components.frames import End, Fault, Frame, Generate, MediaFile
from ..components.registry import component_class
from .graph import Graph
from .runtimes.base import Runtime
from .runtimes.local import LocalRuntime
from .version import PipelineSession, Stopping, Version
from .versions import Versions

__all__ = ["Pipeline", "PipelineSession"]


class Pipeline:
    """Use as an async context manager: entering loads the models, leaving frees them.

    ```python
    async with Pipeline(load("voice")) as pipeline, pipeline.session() as session:
        await session.send(frame)
    ```

    Another version of the graph can take its place, or a share of its sessions, while it runs:
    `versions`. What is asked of the pipeline itself is answered by the stable one.
    """

    def __init__(self, graph: Graph, runtime: Runtime | None = None) -> None:
        self.versions = Versions(graph, runtime or LocalRuntime(graph))
        self.draining = False

    @property
    def name(self) -> str:
        """The name that clients use as `model`."""
        return self.graph.name

    @property
    def graph(self) -> Graph:
        """The graph of the stable version."""
        return self.versions.stable.graph

    @property
    def runtime(self) -> Runtime:
        """The runtime of the stable version."""
        return self.versions.stable.runtime

    @property
    def sessions(self) -> set[str]:
        """Ids of the open sessions of all versions."""
        return {one for version in self.versions.all for one in version.sessions}

    @property
    def ready(self) -> bool:
        """Whether a session can begin now."""
        return self.runtime.ready and not self.draining

    async def __aenter__(self) -> Pipeline:
        await self.versions.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.versions.close()

    def refuse(self, asked: MediaFile | Generate) -> None:
        """Refuse a request that whoever gets it first can't follow, for doors that queue requests.
        May read files.

        Raises:
            BadInput: with what is possible.
        """
        for name in self.graph.entries(type(asked)):
            node = self.graph.nodes[name].spec
            component_class(node.use).refuse(Setup(name, node.model, node.options), asked)

    def pick(self) -> Version:
        """The version for a new session, which must begin before anything is awaited.

        Raises:
            Overloaded: the pipeline has its configured number of sessions, or drains.
        """
        if self.draining:
            raise Overloaded("the server is shutting down", where=self.name, retry_after_s=5)
        version = self.versions.pick()
        most = version.graph.spec.sessions.max_sessions
        if self.versions.sessions >= most:
            raise Overloaded(f"all {most} sessions are taken", where=self.name, retry_after_s=10)
        return version

    def session(
        self,
        *,
        session_id: str | None = None,
        deadline_s: float | None = None,
        key: str = "",
        trace: str = "",
        priority: int = 0,
    ) -> PipelineSession:
        """A new session, to be entered at once; `deadline_s` is on `time.monotonic`'s clock.

        Raises:
            Overloaded: the pipeline has its configured number of sessions, or drains.
        """
        return self.pick().session(
            session_id=session_id, deadline_s=deadline_s, key=key, trace=trace, priority=priority
        )

    async def ask(
        self,
        *frames: Frame,
        deadline_s: float | None = None,
        key: str = "",
        trace: str = "",
        priority: int = 0,
    ) -> AsyncGenerator[Frame]:
        """One request in a session of its own: its frames in, the answer's frames out.

        Closing the iterator, as leaving `contextlib.aclosing` does, cancels the work.

        Raises:
            Overloaded: no session is free, or a node's queue is full.
            MotetError: what a component's fault stands for.
        """
        made = self.session(deadline_s=deadline_s, key=key, trace=trace, priority=priority)
        async with made as session:
            session.start(1, *frames, deadline_s=deadline_s)
            async for turn, node, frame in session:
                if turn != 1:
                    continue
                if isinstance(frame, End):
                    return
                if isinstance(frame, Fault):
                    raise error_of(frame.code, frame.message, where=node)
                yield frame
            raise Stopping("the pipeline was closed before it had answered", where=self.name)
