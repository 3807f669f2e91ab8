"""The garbage collector of the process that serves: out of the way, and back when weights go."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

PATIENCE_S = 60.0
LOOK_S = 0.5


def settle_garbage() -> None:
    """Keep the collector from walking the models and modules again and again: what is loaded now
    stays, and sessions make short-lived objects that mostly hold no cycles. Again, it frees what
    was kept and isn't needed any more. Blocks for some hundred ms."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


class Settling:
    """Settles the garbage again after `ask`: a model full of cycles, as PyTorch's are, would keep
    its weights for ever. It waits for a moment without sessions, since that stops everything for
    a blink, but no longer than `patience_s`.
    """

    def __init__(self, sessions: Callable[[], int], *, patience_s: float = PATIENCE_S) -> None:
        self._sessions = sessions
        self._patience_s = patience_s
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._run(), name="settles garbage")

    def ask(self) -> None:
        """Something big is not needed any more."""
        self._asked.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._asked.wait()
            until_s = loop.time() + self._patience_s
            while self._sessions() and loop.time() < until_s:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(LOOK_S)
            self._asked.clear()
            settle_garbage()

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
