"""The versions of a pipeline behind its one name: which serves new sessions, which runs out.

A new version starts beside the old one, on what of it is the same. Then either it takes all new
sessions (a reload), or a share of them (a canary), which is promoted, or called off by command or
by its faults. A session stays on its version to its end, within the drain deadline.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ..components.errors import Flaw, MotetError, SpecError
from .canary import Canary, CanarySpec
from .graph import FRAME_TYPES, Graph
from .runtimes.base import Runtime
from .version import Version

logger = logging.getLogger("motet")
MOST_VERSIONS = 8
LAST_WORDS_S = 5.0
"""How long clients have to take the fault that ends what outlived the drain deadline."""


class Conflict(MotetError):
    """The versions aren't so that this could be done now."""

    code = "conflict"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to the versions, and when (Unix time)."""

    at: float
    text: str


class Versions:
    """Owns the versions of one pipeline, from `open` to `close`.

    `on_ended` is called when one has run out and what it loaded is closed.
    """

    def __init__(self, graph: Graph, runtime: Runtime) -> None:
        self.stable = self._made("1", graph, runtime)
        self.stable.role = "stable"
        self.canary: Version | None = None
        self.retiring: list[Version] = []
        self.events: deque[Event] = deque(maxlen=20)
        self.policy: Canary | None = None
        self._pending: Version | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closed = False
        self._last = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_ended: Callable[[], None] | None = None

    @property
    def all(self) -> list[Version]:
        """Those that have sessions or may get some: the stable one first."""
        return [self.stable, *([self.canary] if self.canary else []), *self.retiring]

    @property
    def sessions(self) -> int:
        """Open sessions of all versions."""
        return sum(len(version.sessions) for version in self.all)

    def share(self, version: Version) -> float:
        """What part of the new sessions a version gets."""
        canary = self.policy.share if self.canary is not None and self.policy is not None else 0.0
        return {"stable": 1.0 - canary, "canary": canary}.get(version.role, 0.0)

    async def open(self) -> None:
        """Start the first version. Raises what its runtime raises."""
        await self.stable.runtime.start()

    async def close(self) -> None:
        """Close every version. Idempotent."""
        self._closed = True
        tasks = [*self._tasks, *([self._starting] if self._starting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with AsyncExitStack() as stack:
            for version in self.all:
                stack.push_async_callback(version.runtime.close)
            if self._pending is not None:
                stack.push_async_callback(self._pending.runtime.close)

    def pick(self) -> Version:
        """The version for a new session, which must begin before anything is awaited."""
        canary, policy = self.canary, self.policy
        if canary is None or policy is None or not policy.takes() or not canary.runtime.ready:
            return self.stable
        return canary

    async def start(
        self, graph: Graph, *, fresh: bool = False, targets: Mapping[str, str] = {}
    ) -> Version:
        """Start a further version beside the others; `adopt`, `begin` or `discard` it next.

        What is the same as in the stable one keeps its weights, unless `fresh`. `targets` are for
        `Runtime.successor`.

        Raises:
            Conflict: a canary or another start is under way, or too many versions still run out.
            SpecError: it is another pipeline, or the runtime can't change to it.
            MotetError: it couldn't be loaded. Nothing has changed then.
        """
        self._check(graph)
        number = str(self._last + 1)
        before = self.stable.runtime
        runtime = before.successor(graph, number, fresh=fresh, targets=targets)
        self._starting = asyncio.create_task(runtime.start(), name=f"starts {graph.name} {number}")
        try:
            await self._starting
        except asyncio.CancelledError:
            if self._closed:
                raise Conflict("the server is shutting down", where=graph.name) from None
            raise
        finally:
            self._starting = None
        if self._closed:
            await runtime.close()
            raise Conflict("the server is shutting down", where=graph.name)
        self._last += 1
        self._pending = self._made(number, graph, runtime)
        return self._pending

    def _made(self, number: str, graph: Graph, runtime: Runtime) -> Version:
        return Version(number, graph, runtime, ended=self._ended)

    def _check(self, graph: Graph) -> None:
        name = self.stable.name
        if graph.name != name:
            flaw = Flaw("name", f"is {graph.name!r}; a version of {name!r} is needed")
            raise SpecError([flaw], file=graph.file)
        if self._starting is not None or self._pending is not None:
            raise Conflict("another version is being started", where=name)
        if self._closed:
            raise Conflict("the server is shutting down", where=name)
        if self.canary is not None:
            raise Conflict(
                f"version {self.canary.id} is a canary; promote it or abort it first", where=name
            )
        if len(self.all) >= MOST_VERSIONS:
            raise Conflict(
                f"{len(self.retiring)} old versions still have sessions; wait, or reload with a"
                " shorter drain",
                where=name,
            )

    async def discard(self, version: Version) -> None:
        """Close a version that was started and isn't wanted."""
        self._pending = None
        await version.runtime.close()
        del version
        if self.on_ended is not None:
            self.on_ended()

    def adopt(self, version: Version, *, drain_s: float | None = None) -> None:
        """All new sessions go to this version; the old one runs out, for at most `drain_s`.

        Raises:
            Conflict: the server has been shut down meanwhile.
        """
        if self._closed:
            raise Conflict("the server is shutting down", where=self.stable.name)
        self._pending = None
        old, self.stable = self.stable, version
        version.role = "stable"
        self._note(f"version {version.id} takes over from {old.id}")
        self._retire(old, drain_s)

    def begin(self, version: Version, spec: CanarySpec) -> None:
        """A started version becomes the canary.

        Raises:
            SpecError: it doesn't take or make what clients of the stable one rely on.
        """
        flaws = missing(self.stable.graph, version.graph)
        if flaws:
            raise SpecError(flaws, file=version.graph.file)
        self._pending = None
        self.canary, self.policy = version, Canary(spec)
        version.role = "canary"
        self._note(f"version {version.id} is a canary with {spec.share:.0%} of new sessions")

    def move(self, share: float) -> None:
        """Give the canary another share of new sessions. Raises `Conflict` without one."""
        version, policy = self._under_way()
        policy.share = share
        self._note(f"version {version.id}, the canary, gets {share:.0%} of new sessions")

    def promote(self, *, drain_s: float | None = None) -> None:
        """The canary takes all new sessions. Raises `Conflict` without one."""
        version, _ = self._under_way()
        self.canary = self.policy = None
        self.adopt(version, drain_s=drain_s)

    def abort(self, reason: str = "by command", *, drain_s: float | None = None) -> None:
        """The canary gets no more sessions and runs out. Raises `Conflict` without one."""
        version, _ = self._under_way()
        self.canary = self.policy = None
        self._note(f"version {version.id}, the canary, was called off: {reason}")
        self._retire(version, drain_s)

    def _under_way(self) -> tuple[Version, Canary]:
        if self.canary is None or self.policy is None:
            raise Conflict("there is no canary", where=self.stable.name)
        return self.canary, self.policy

    def _ended(self, version: Version, fault: bool) -> None:
        if version is not self.canary or self.policy is None:
            return
        now_s = asyncio.get_running_loop().time()
        self.policy.ended(now_s, fault=fault)
        reason = self.policy.verdict(now_s)
        if reason is not None:
            logger.warning("%s: version %s fails too often", self.stable.name, version.id)
            self.abort(reason)

    def _retire(self, version: Version, drain_s: float | None) -> None:
        version.role = "retiring"
        self.retiring.append(version)
        most_s = version.graph.spec.sessions.max_age_s if drain_s is None else drain_s
        name = f"version {version.id} of {version.name} runs out"
        task = asyncio.create_task(self._run_out(version, most_s), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_out(self, version: Version, drain_s: float) -> None:
        if not await version.emptied(drain_s):
            left = len(version.sessions)
            self._note(f"version {version.id}: {left} sessions outlived {drain_s:g} s and were cut")
            version.evict()
            if not await version.emptied(LAST_WORDS_S):
                await version.close_sessions()
                await version.emptied(LAST_WORDS_S)
        try:
            await version.runtime.close()
        except Exception as error:
            logger.exception("version %s of %s", version.id, version.name, exc_info=error)
        self.retiring.remove(version)
        self._note(f"version {version.id} has ended")
        del version
        if self.on_ended is not None:
            self.on_ended()

    def _note(self, text: str) -> None:
        self.events.append(Event(time.time(), text))
        logger.info("%s: %s", self.stable.name, text)


def missing(before: Graph, after: Graph) -> list[Flaw]:
    """What clients of one version could rely on that another doesn't have."""
    flaws = [
        Flaw("edges", f"it takes no {name}, as the version beside it does")
        for name, kind in FRAME_TYPES.items()
        if before.entries(kind) and not after.entries(kind)
    ]
    made, kept = (
        {kind.__name__ for node in graph.nodes.values() for kind in node.emits}
        for graph in (before, after)
    )
    flaws += [
        Flaw("nodes", f"it makes no {name}, as the version beside it does")
        for name in sorted(made - kept)
    ]
    if before.spec.conversation is not None and after.spec.conversation is None:
        flaws.append(Flaw("conversation", "is missing, which the version beside it has"))
    return flaws
