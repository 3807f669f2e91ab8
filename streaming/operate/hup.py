"""SIGHUP: from `kill -HUP`, read the pipeline files again; from a terminal that is gone, end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress


class Hangup:
    """`watch` within a running loop; then a SIGHUP starts `reload`, or calls `leave` where the
    terminal of the process has hung up. One that is ignored (nohup) stays ignored. Signals during
    a reload lead to one more after it.
    """

    def __init__(self, reload: Callable[[], Awaitable[None]], leave: Callable[[], None]) -> None:
        self._reload = reload
        self._leave = leave
        self._had_terminal = False
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Take the signal over."""
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            return
        self._had_terminal = has_terminal()
        self._task = asyncio.create_task(self._run(), name="reload on SIGHUP")
        # A server in a thread of another program leaves that program's signals alone.
        with suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_signal)

    def _on_signal(self) -> None:
        if self._had_terminal and not has_terminal():
            self._leave()
        else:
            self._asked.set()

    async def _run(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._reload()

    async def close(self) -> None:
        """End a reload under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None


def has_terminal() -> bool:
    """Whether the process has a controlling terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
