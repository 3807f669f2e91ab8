"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

_AGAIN_S = 3.0


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they are done.

    Once isn't enough: before Python 3.12, `asyncio.wait_for`, which the database driver uses, loses
    a cancellation that comes just as its result does.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def end_gently(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks once, and wait for what they do about it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
