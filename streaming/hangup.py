"""Work that ends when its client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request

Answer = TypeVar("Answer")


class HungUp(Exception):
    """The client has gone; nobody reads the answer (499)."""


async def while_connected(request: Request, work: Awaitable[Answer]) -> Answer:
    """Run `work` to its end, or cancel it when the client disconnects. The body must be read.

    Raises:
        HungUp: the client disconnected first.
    """
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise HungUp
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
