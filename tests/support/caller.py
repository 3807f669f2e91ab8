"""A client on a real socket that speaks and listens, for tests of the whole path."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import numpy as np
from eventlog import EventLog
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

RATE_HZ = 24_000
Samples = NDArray[np.int16]


@cache
def speech(text: str) -> Samples:
    """The text as the built-in voice says it: int16 at 24 kHz."""
    from hibari import Hibari

    return (np.asarray(Hibari()(text, seed=0)) * 30_000).astype(np.int16)


def quiet(seconds: float) -> Samples:
    """A room's faint noise."""
    return np.random.default_rng(7).normal(0, 10, int(seconds * RATE_HZ)).astype(np.int16)


@cache
def _whisper() -> Any:
    from faster_whisper import WhisperModel

    from motet.components.models import bundled_path

    return WhisperModel(str(bundled_path("whisper-tiny-en")), compute_type="int8", cpu_threads=2)


def transcribe(pcm: Samples) -> str:
    """What another Whisper hears in 24 kHz audio."""
    import soxr

    heard = soxr.resample(pcm.astype(np.float32) / 32768, RATE_HZ, 16_000)
    segments, _ = _whisper().transcribe(heard, beam_size=5)
    return " ".join(segment.text.strip() for segment in segments)


def words(text: str) -> list[str]:
    """The words of a text, as one compares them."""
    return re.findall(r"[a-z']+|\d+", text.lower())


class Caller(EventLog):
    """Sends speech at the pace of life or faster, and keeps every event."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        EventLog.__init__(self)

    async def listen(self) -> None:
        """Take events until the socket closes."""
        async for message in self._socket:
            self.note(json.loads(message))

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a client event."""
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def say(self, *sounds: Samples, pace: float = 1.0) -> None:
        """Send sounds in chunks of 20 ms, `pace` times as fast as life."""
        pcm = np.concatenate(sounds)
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        for at in range(0, len(pcm), 480):
            audio = base64.b64encode(pcm[at : at + 480].tobytes()).decode()
            await self.send("input_audio_buffer.append", audio=audio)
            await asyncio.sleep(max(0.0, start_s + at / RATE_HZ / pace - loop.time()))

    def audio(self, response_id: str | None = None) -> Samples:
        """The audio of a response, or of all."""
        deltas = [
            base64.b64decode(e["delta"])
            for e in self.events
            if e["type"] == "response.output_audio.delta"
            and response_id in (None, e["response_id"])
        ]
        return np.frombuffer(b"".join(deltas), np.int16)

    def close_code(self) -> int | None:
        """The code that the server closed with."""
        return self._socket.close_code

    def kinds(self) -> list[str]:
        """The types of all events."""
        return [event["type"] for event in self.events]


@asynccontextmanager
async def calling(address: str, query: str = "model=voice") -> AsyncIterator[Caller]:
    """A caller connected to the server at this http address."""
    url = f"{address.replace('http', 'ws', 1)}/v1/realtime?{query}"
    async with connect(url, max_size=None) as socket:
        caller = Caller(socket)
        listening = asyncio.create_task(caller.listen())
        try:
            yield caller
        finally:
            await socket.close()
            await asyncio.gather(listening, return_exceptions=True)
