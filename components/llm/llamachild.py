"""Starting and stopping llama.cpp's server in a child process, bound to this machine alone."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from ..errors import ComponentFailed

# Threads of one step wait for each other many times a token. Where they spin meanwhile and share
# the cores with other work, a step takes a hundred times as long.
ASLEEP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}


class LlamaChild:
    """One server process. Only who has `key` may use it; the port is free and on 127.0.0.1."""

    def __init__(self, settings: Mapping[str, Any], *, where: str) -> None:
        self.key = secrets.token_urlsafe(32)
        self.address = ""
        self._settings = dict(settings)
        self._where = where
        self._process: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    async def ended(self, within_s: float) -> bool:
        """Whether the process is over, or is so `within_s` seconds."""
        try:
            async with asyncio.timeout(within_s):
                if self._process is not None:
                    await self._process.wait()
        except TimeoutError:
            return False
        return True

    async def answers(self, within_s: float) -> bool:
        """Whether the loop that computes for all prompts takes a question within `within_s`
        seconds; True where the process is over, which isn't hung."""
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            async with httpx.AsyncClient(headers=headers, timeout=within_s) as http:
                await http.get(f"{self.address}/slots")
        except httpx.TimeoutException:
            return not self.alive
        except httpx.HTTPError:
            return True
        return True

    async def start(self) -> None:
        """Start the process and wait until the model is loaded. Cancelling ends the process.

        Raises:
            ComponentFailed: the model can't be loaded; the message has llama.cpp's own words.
        """
        # Its words go to a file: a pipe that nobody drains would stop a talkative engine.
        with tempfile.TemporaryFile() as words:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"{__package__}.llamaserver",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=words,
                env=os.environ | ASLEEP,
            )
            assert process.stdin
            assert process.stdout
            try:
                settings = self._settings | {"api_keys": [self.key], "port": 0}
                process.stdin.write(json.dumps(settings).encode() + b"\n")
                line = await process.stdout.readline()
            except BaseException:
                await self.stop()
                raise
            if not line:
                await self.ended(1.0)
                status = process.returncode
                await self.stop()
                words.seek(0)
                said = words.read().decode(errors="replace").strip()[-600:]
                said = said or f"it ended with status {status}"
                raise ComponentFailed(f"llama.cpp did not start: {said}", where=self._where)
        self.address = json.loads(line)["address"]

    async def stop(self, patience_s: float = 5.0) -> None:
        """End the process and wait for it. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        with suppress(OSError):
            process.stdin.close()
        try:
            async with asyncio.timeout(patience_s):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
