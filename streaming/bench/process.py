"""A server in a process of its own, for whoever measures or tests it from outside."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from ...components.errors import ComponentFailed

LISTENING = re.compile(r"listening at (http://\S+)")


@asynccontextmanager
async def serving(
    *arguments: str, environment: Mapping[str, str] | None = None, start_s: float = 60.0
) -> AsyncGenerator[tuple[str, int]]:
    """Run `motet serve ARGUMENTS --port 0`; yields its ws:// address and its process id.

    Raises:
        ComponentFailed: it ended, or didn't listen within `start_s`; the message has its output.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "motet", "serve", *arguments, "--port", "0"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stderr is not None
    try:
        url = await address(process.stderr, start_s)
        drain = asyncio.create_task(swallow(process.stderr))
        try:
            yield url.replace("http://", "ws://"), process.pid
        finally:
            drain.cancel()
            await asyncio.gather(drain, return_exceptions=True)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def address(output: asyncio.StreamReader, start_s: float) -> str:
    """The address that the server says it listens at."""
    said: list[str] = []
    try:
        async with asyncio.timeout(start_s):
            while line := (await output.readline()).decode():
                said.append(line)
                if found := LISTENING.search(line):
                    return found[1]
    except TimeoutError:
        said.append(f"(nothing more in {start_s} s)")
    raise ComponentFailed("the server didn't start:\n" + "".join(said[-20:]), where="serve")


async def swallow(output: asyncio.StreamReader) -> None:
    """Read on, so that the server never waits for its log to be taken."""
    while await output.read(65_536):
        pass
