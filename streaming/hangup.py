"""Work that ends when its client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

Answer = TypeVar("Answer")


class HungUp(Exception):
    """The client has gone; nobody reads the answer."""


async def while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
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
