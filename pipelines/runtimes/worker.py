"""One worker process as its parent sees it: spawned, watched, called, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from ...components.base import Context, Setup
from ...components.errors import ComponentFailed, MotetError
from ...components.frames import Frame
from ...components.wire import motet_pb2 as pb
from ...components.wire.faults import from_abort
from .base import ReplicaStatus
from .child import Order, threads_of
from .link import LinkSettings
from .mux import Hop

MODULE = f"{__package__}.child"


class Worker:
    """A replica in a process of its own. `changed` is called when its state has changed, `ended`
    once its process is no more.

    States: "starting", "ready", "draining", "failed" (it couldn't load; `error` says why), "gone".
    """

    def __init__(
        self,
        name: str,
        use: str,
        setup: Setup,
        *,
        folder: Path,
        environment: dict[str, str],
        link: LinkSettings,
        changed: Callable[[Worker], None],
        ended: Callable[[], None],
    ) -> None:
        self.name = name
        self.state = "starting"
        self.error: MotetError | None = None
        self.utilisation: float | None = None
        self.draining = asyncio.Event()
        self.load_s = 0.0
        self.cold_start_s = 0.0
        self._socket = folder / name
        self._order = Order(use, setup, str(self._socket), link)
        self._environment = environment
        self._changed = changed
        self._ended = ended
        self._hop = Hop(f"unix:{self._socket}", settings=link, on_status=self._told)
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._began_s = time.monotonic()

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Spawn it and watch over it in a task; `changed` tells how it goes."""
        self._watch = asyncio.create_task(self._live(), name=f"worker {self.name}")

    async def _live(self) -> None:
        """The process's life: it ends when the process has exited, or can't be talked to."""
        try:
            self._process = await self._spawn()
            await self._connect(self._process)
            gone = asyncio.create_task(self._process.wait())
            lost = [self._hop.lost] if self._hop.lost else []
            await asyncio.wait([gone, *lost], return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if self.state != "starting":
                self._lost(self._hop.link.closed)
            self._lost(await self._why(self._hop.link.closed))
        except MotetError as error:
            self._lost(await self._why(error))
        except OSError as error:
            self._lost(ComponentFailed(f"can't be started: {error}", where=self.name))
        finally:
            self._end_process()
            await self._hop.close()
            if self._process is not None:
                await self._process.wait()
            self._lost(None)
            self._socket.unlink(missing_ok=True)
            self._ended()

    async def _why(self, error: MotetError | None) -> MotetError | None:
        """How the process ended if it does so soon: that says more than a lost connection."""
        if self._process is not None:
            with suppress(TimeoutError):
                code = await asyncio.wait_for(self._process.wait(), 0.5)
                return ComponentFailed(f"the process {_ended(code)}", where=self.name)
        return error

    def _lost(self, error: MotetError | None) -> None:
        """Nothing is to be sent here any more; `error` is why, unless it was meant to end."""
        if self.state != "gone":
            if self.state != "draining":
                self.error = self.error or error
            self.state = "gone"
            self._changed(self)

    async def _spawn(self) -> asyncio.subprocess.Process:
        paths = [path or os.getcwd() for path in sys.path]
        setup = self._order.setup
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            MODULE,
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={
                **os.environ,
                **threads_of(setup.resources),
                **self._environment,
                "PYTHONPATH": os.pathsep.join(paths),
            },
        )
        if process.stdin is not None:
            process.stdin.write(self._order.dump().encode() + b"\n")
            await process.stdin.drain()
        return process

    async def _connect(self, process: asyncio.subprocess.Process) -> None:
        """Connect as soon as the process listens."""
        while not self._socket.exists():
            if process.returncode is not None:
                raise ComponentFailed(
                    f"the process {_ended(process.returncode)} before it listened", where=self.name
                )
            await asyncio.sleep(0.01)
        await self._hop.open()

    def _told(self, status: pb.Status) -> None:
        self.utilisation = status.utilisation if status.HasField("utilisation") else None
        if status.state == pb.Status.READY and self.state == "starting":
            self.state = "ready"
            self.load_s = status.load_s
            self.cold_start_s = time.monotonic() - self._began_s
            self._changed(self)
        elif status.state == pb.Status.FAILED and self.state == "starting":
            self.state = "failed"
            self.error = from_abort(pb.Abort(code=status.code, message=status.message))
            self._changed(self)

    async def call(
        self, node: str, frames: AsyncIterator[Frame], context: Context, window: int
    ) -> AsyncIterator[Frame]:
        """Run the component there; see `Runtime.call`."""
        calls = self._hop.link.calls
        with calls.told_gone(f"replica {self.name}", node, self._lost):
            async for frame in calls.call(node, frames, context, window=window):
                yield frame

    @property
    def silent(self) -> bool:
        """See `Serving.silent`."""
        return self._hop.link.silent

    def drain(self) -> None:
        """Let it finish what runs, then exit."""
        if self.state != "gone":
            self.state = "draining"
            self._hop.link.drain()

    async def stop(self, grace_s: float) -> None:
        """End the process: drained within `grace_s`, else killed. Idempotent."""
        self.drain()
        if self._watch is not None:
            if self._process is not None:
                await asyncio.wait([self._watch], timeout=grace_s)
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def _end_process(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def status(self, state: str, sessions: int) -> ReplicaStatus:
        """As `motet status` shows it."""
        return ReplicaStatus(self.name, state, sessions, self.cold_start_s)


def _ended(code: int) -> str:
    if code >= 0:
        return f"exited with {code}"
    return f"was ended by {signal.Signals(-code).name}"
