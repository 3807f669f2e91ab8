"""One simulated caller: speaks a clip at the pace of life, and notes when it is answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .clip import CHUNK_MS, Clip
from .sockets import Refused, Socket

AUDIO = '"response.output_audio.delta"'
DONE = '"response.done"'
HEAD = 240


@dataclass
class Record:
    """What all callers saw; times in seconds. Only what happens while `on` counts."""

    on: bool = False
    answers_s: list[float] = field(default_factory=list[float])
    late_s: list[float] = field(default_factory=list[float])
    frames_s: list[float] = field(default_factory=list[float])
    refused: dict[int, int] = field(default_factory=dict[int, int])
    turns: int = 0
    unanswered: int = 0
    bytes_out: int = 0


class Caller:
    """Feeds its clip in cycles; `fed_s` holds when each chunk was sent.

    `named` is told the session's id when the server has said it.
    """

    def __init__(
        self, socket: Socket, clip: Clip, record: Record, named: Callable[[str, Caller], None]
    ) -> None:
        self._socket = socket
        self._named = named
        self._clip = clip
        self._record = record
        self._asked_s: float | None = None
        self.fed_s: list[float] = []

    async def call(self, stop_s: float) -> None:
        """Talk until `stop_s`, then hang up; a refusal is counted."""
        reader = asyncio.create_task(self._read())
        feeder = asyncio.create_task(self._feed(stop_s))
        try:
            await asyncio.wait((reader, feeder), return_when=asyncio.FIRST_COMPLETED)
        finally:
            feeder.cancel()
            reader.cancel()
            results = await asyncio.gather(reader, feeder, return_exceptions=True)
            await self._socket.close()
        code: int | None = None
        for result in results:
            if isinstance(result, Refused):
                code = result.code
            elif isinstance(result, Exception):
                raise result
        if code is not None:
            self._record.refused[code] = self._record.refused.get(code, 0) + 1

    async def _feed(self, stop_s: float) -> None:
        start_s = time.perf_counter() + random.random() * len(self._clip.events) * CHUNK_MS / 1000
        number, cycle = 0, len(self._clip.events)
        while (now_s := time.perf_counter()) < stop_s:
            due_s = start_s + number * CHUNK_MS / 1000
            if due_s > now_s:
                await asyncio.sleep(due_s - now_s)
                now_s = time.perf_counter()
            if self._record.on:
                self._record.late_s.append(now_s - due_s)
            self.fed_s.append(now_s)
            await self._socket.send(self._clip.events[number % cycle])
            if number % cycle == self._clip.speech_chunks - 1:
                self._ask(now_s)
            number += 1

    def _ask(self, now_s: float) -> None:
        """The caller has finished a question; an earlier one without an answer is counted."""
        if self._asked_s is not None and self._record.on:
            self._record.unanswered += 1
        self._asked_s = now_s

    async def _read(self) -> None:
        created = json.loads(await self._socket.receive())
        self._named(str(created.get("session", {}).get("id", "")), self)
        while True:
            text = await self._socket.receive()
            self._record.bytes_out += len(text)
            head = text[:HEAD]
            if AUDIO in head and self._asked_s is not None:
                if self._record.on:
                    self._record.answers_s.append(time.perf_counter() - self._asked_s)
                self._asked_s = None
            elif DONE in head and self._record.on:
                self._record.turns += 1
