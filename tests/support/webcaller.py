"""A caller over WebRTC in the tests' own process: speaks, listens, and keeps every event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame
from eventlog import Event, EventLog
from numpy.typing import NDArray

RATE_HZ = 24_000
PIECE = RATE_HZ // 50
Samples = NDArray[np.int16]


class Mouth(MediaStreamTrack):
    """What the caller says, at the pace of life; silence when there is nothing."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._waiting = np.empty(0, np.int16)
        self._start_s: float | None = None
        self._count = 0
        self.said = asyncio.Event()

    def say(self, *sounds: Samples) -> None:
        """Say these next; `said` is set when they are out."""
        self._waiting = np.concatenate([self._waiting, *sounds])
        self.said.clear()

    async def recv(self) -> AudioFrame:
        """The next 20 ms."""
        loop = asyncio.get_running_loop()
        if self._start_s is None:
            self._start_s = loop.time()
        await asyncio.sleep(max(0.0, self._start_s + self._count * 0.02 - loop.time()))
        pcm, self._waiting = self._waiting[:PIECE], self._waiting[PIECE:]
        if not len(self._waiting):
            self.said.set()
        whole = np.zeros(PIECE, np.int16)
        whole[: len(pcm)] = pcm
        frame = AudioFrame.from_ndarray(whole[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE_HZ, self._count * PIECE
        frame.time_base = Fraction(1, RATE_HZ)
        self._count += 1
        return frame


class WebCaller(EventLog):
    """One call. `heard` are the pieces that came, at 48 kHz mono, with the time of each."""

    def __init__(self) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.mouth = Mouth()
        self.connection.addTrack(self.mouth)
        self.channel = self.connection.createDataChannel("oai-events")
        EventLog.__init__(self)
        self.heard: list[tuple[float, Samples]] = []
        self.open = asyncio.Event()
        self.closed = asyncio.Event()
        self.call_id = ""
        self._more = asyncio.Event()
        self._ear: asyncio.Task[None] | None = None
        self.channel.on("message", self._told)
        self.channel.on("open", self.open.set)
        self.channel.on("close", self.closed.set)
        self.connection.on("connectionstatechange", self._changed)
        self.connection.on("track", self._listen)

    async def offer(self) -> str:
        """The caller's offer, with its candidates."""
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def accept(self, answer: httpx.Response) -> None:
        """Take the answer, and wait until the channel is open."""
        assert answer.status_code == 201, answer.text
        self.call_id = answer.headers["location"].rpartition("/")[2]
        description = RTCSessionDescription(answer.text, "answer")
        await self.connection.setRemoteDescription(description)
        async with asyncio.timeout(20):
            await self.open.wait()

    def send(self, kind: str, **fields: Any) -> None:
        """Send a client event."""
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def say(self, *sounds: Samples) -> None:
        """Say these, and wait until they are out."""
        self.mouth.say(*sounds)
        await self.mouth.said.wait()

    def kinds(self) -> list[str]:
        """The types of all events."""
        return [event["type"] for event in self.events]

    def sound(self) -> Samples:
        """All that was heard, at 48 kHz."""
        return np.concatenate([pcm for _, pcm in self.heard] or [np.empty(0, np.int16)])

    def voiced_s(self) -> float:
        """How long something else than silence was heard."""
        return sum(bool(np.abs(pcm).max() > 200) for _, pcm in self.heard) * 0.02

    async def hears(self, seconds: float) -> None:
        """Wait until so much else than silence was heard."""
        async with asyncio.timeout(30):
            while self.voiced_s() < seconds:
                self._more.clear()
                await self._more.wait()

    async def close(self) -> None:
        """Hang up."""
        await self.connection.close()
        if self._ear is not None:
            self._ear.cancel()
            with suppress(asyncio.CancelledError):
                await self._ear

    def _told(self, message: str) -> None:
        self.note(json.loads(message))

    def _changed(self) -> None:
        if self.connection.connectionState in ("closed", "failed"):
            self.closed.set()

    def _listen(self, track: MediaStreamTrack) -> None:
        self._ear = asyncio.create_task(self._hear(track))

    async def _hear(self, track: MediaStreamTrack) -> None:
        with suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                pcm = frame.to_ndarray().reshape(-1, frame.layout.nb_channels)[:, 0]
                self.heard.append((asyncio.get_running_loop().time(), pcm))
                self._more.set()


SDP = {"content-type": "application/sdp"}


@asynccontextmanager
async def web_calling(
    http: httpx.AsyncClient, session: Event | None = None, **headers: str
) -> AsyncIterator[WebCaller]:
    """A caller in a call with the server of this client."""
    caller = WebCaller()
    try:
        offer = await caller.offer()
        if session is None:
            answer = await http.post("/v1/realtime/calls", content=offer, headers=SDP | headers)
        else:
            form = {"sdp": (None, offer), "session": (None, json.dumps(session))}
            answer = await http.post("/v1/realtime/calls", files=form, headers=headers)
        await caller.accept(answer)
        yield caller
    finally:
        await caller.close()
