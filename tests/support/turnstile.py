"""A model that serves one prompt at a time, when it is let, and notes whom it served."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import ClassVar

from motet.components.base import Component, Context
from motet.components.frames import Completed, Frame, Prompt, TextDelta


class Turnstile(Component):
    """`gate` holds the first prompt; the others wait in the queue of its node meanwhile."""

    accepts = (Prompt,)
    emits = (TextDelta, Completed)
    concurrency = 1
    served: ClassVar[list[tuple[str, int]]] = []
    gate: ClassVar[threading.Event] = threading.Event()

    async def run(self, frames: AsyncIterator[Frame], context: Context) -> AsyncIterator[Frame]:
        import asyncio

        async for _ in frames:
            Turnstile.served.append((context.key, context.priority))
            while not Turnstile.gate.is_set():  # noqa: ASYNC110 - the gate is another thread's
                await asyncio.sleep(0.005)
            yield TextDelta("ok")
            yield Completed()
