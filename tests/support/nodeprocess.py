"""`motet node` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def node(file: Path, name: str, address: str) -> AsyncIterator[int]:
    """Its process id; killed at the end, unless it has gone before."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = ["-P", "-m", "motet", "node", str(file), name, "--address", address]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, env=env)
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
