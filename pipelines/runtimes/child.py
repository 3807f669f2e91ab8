"""A worker process: one replica of one component, served over the hop until its parent is gone.

Started as `python -m motet.pipelines.runtimes.child`. The first line of standard input says what to
build; after it, standard input stays open as the lifeline: when it closes, the parent has died and
the process exits at once, whatever an engine is doing.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

import uvloop

from ...components import registry
from ...components.base import Component, Context, Resources, Setup, closing
from ...components.errors import ComponentFailed, MotetError, Overloaded
from ...components.frames import Frame
from ...components.wire import motet_pb2 as pb
from ...components.wire.faults import clean
from .link import LinkSettings
from .mux import HopServer

REPORT_S = 0.5
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is told to be: its component, and the path of the socket to serve it on."""

    use: str
    setup: Setup
    socket: str
    link: LinkSettings

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def parse(line: str) -> Order:
        """The order that `dump` wrote."""
        values = json.loads(line)
        setup = values["setup"]
        setup["resources"] = Resources(**setup["resources"])
        return Order(
            values["use"], Setup(**setup), values["socket"], LinkSettings(**values["link"])
        )


class Child:
    """Loads the component, serves its runs, and ends when it is told to and nothing runs."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._node = order.setup.node
        self._component: Component | None = None
        self._over = asyncio.Event()
        self._draining = False
        self._active = 0
        self._status = pb.Status(state=pb.Status.LOADING)
        self._server = HopServer(
            self._run, node=self._node, settings=order.link, on_drain=self.drain
        )

    async def serve(self) -> None:
        """Serve until drained, or until the component fails to load and the parent ends it."""
        # The socket gets its name when it listens, so that whoever sees it can connect.
        await self._server.start(f"unix:{self._order.socket}.new")
        os.rename(f"{self._order.socket}.new", self._order.socket)
        loading = asyncio.create_task(self._load(), name="load")
        reporting = asyncio.create_task(self._report_often(), name="report")
        try:
            await self._over.wait()
        finally:
            for task in (loading, reporting):
                task.cancel()
            await asyncio.gather(loading, reporting, return_exceptions=True)
            await self._server.stop(grace_s=1.0)
            if self._component is not None:
                await self._component.close()

    async def _load(self) -> None:
        started = time.monotonic()
        try:
            component = await asyncio.to_thread(registry.build, self._order.use, self._order.setup)
            await component.load()
        except Exception as error:
            if not isinstance(error, MotetError):
                error = ComponentFailed(f"loading failed: {type(error).__name__}: {error}")
            self._report(
                pb.Status(state=pb.Status.FAILED, code=error.code, message=clean(str(error)))
            )
            return
        self._component = component
        self._report(pb.Status(state=pb.Status.READY, load_s=time.monotonic() - started))

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            self._report(self._status)

    def _report(self, status: pb.Status) -> None:
        busy = self._component.utilisation() if self._component else None
        if busy is not None:
            status.utilisation = busy
        status.active = self._active
        self._status = status
        self._server.report(status)

    async def _run(
        self, node: str, frames: AsyncIterator[Frame], context: Context
    ) -> AsyncIterator[Frame]:
        component = self._component
        if component is None or self._draining or node != self._node:
            state = "drains" if self._draining else "hasn't loaded"
            raise Overloaded(f"the replica of {self._node!r} {state}", where=node)
        self._active += 1
        try:
            async with closing(component.run(frames, context)) as answers:
                async for frame in answers:
                    yield frame
        finally:
            self._active -= 1
            self._end_if_drained()

    def drain(self) -> None:
        """Take nothing more; end when nothing runs."""
        self._draining = True
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._draining and self._active == 0:
            self._over.set()


def hold_lifeline() -> None:
    """Exit at once when the parent is gone, however it went."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(70)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
    if sys.platform == "linux":
        # A second line: an engine that holds the interpreter's lock keeps the thread from running.
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def first_line() -> str:
    """One line of standard input, read without buffering what comes after it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            raise SystemExit(70)
        line += read
    return line.decode()


async def _main(order: Order) -> None:
    child = Child(order)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, child.drain)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    await child.serve()


def main() -> None:
    """Be a worker."""
    order = Order.parse(first_line())
    hold_lifeline()
    uvloop.run(_main(order))


def threads_of(resources: Resources) -> dict[str, str]:
    """Environment that keeps numerical libraries to the replica's threads."""
    names: tuple[str, ...] = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
    return {f"{name}_NUM_THREADS": str(resources.threads) for name in names}


if __name__ == "__main__":
    main()
