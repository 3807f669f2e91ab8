"""The calls that are on: found by their id, and ended with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from ..access.auth import Principal
from ..realtime.faults import ClientError
from ..realtime.outgoing import Outgoing

LAST_WORDS_S = 8.0


class Call(Protocol):
    """What others know of a call."""

    @property
    def id(self) -> str: ...

    @property
    def principal(self) -> Principal: ...

    def joined(self) -> AbstractContextManager[Outgoing | None]:
        """Take part: its events come out of this; None where as many have joined as may."""
        ...

    async def receive(self, message: str | bytes) -> None:
        """A client event of one that takes part. Raises `Closed` when the call is over."""
        ...

    def received(self, size: int) -> None:
        """Count what came from one that takes part."""
        ...

    def hang_up(self) -> None:
        """End it."""
        ...


class Calls:
    """Owns the tasks of all calls: leaving its context waits for them, for a while."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Calls:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tasks:
            # Each call sees by itself that the server stops, and tells its caller.
            _, late = await asyncio.wait(self._tasks, timeout=LAST_WORDS_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, call: Call, work: Coroutine[Any, Any, None]) -> None:
        """A call begins; it can be found until its work is done."""
        self._calls[call.id] = call
        task = asyncio.create_task(work, name=call.id)
        self._tasks.add(task)

        def forget(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            del self._calls[call.id]
            if not done.cancelled() and (error := done.exception()) is not None:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"call {call.id} broke", "exception": error, "task": done}
                )

        task.add_done_callback(forget)

    def of(self, call_id: str, principal: Principal) -> Call:
        """The call of that id, for the key that made it.

        Raises:
            ClientError: there is none, or it is another key's.
        """
        call = self._calls.get(call_id)
        if call is None or call.principal.name != principal.name:
            raise ClientError("call_not_found", f"There is no call {call_id!r:.80}.", "call_id")
        return call
