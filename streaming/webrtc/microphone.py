"""The caller's track, taken as it comes and handed on as fast as the pipeline takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import numpy as np
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from ...components.frames import Samples
from .hearing import QUIET_S, RATE_HZ, Hearing

MAX_WAITING = 500
"""Frames of 20 ms that may wait for the pipeline."""


class Microphone:
    """A bounded queue between the track, whose own has no bound, and the pipeline.

    `overrun` is called when it is full: the caller sends faster than time passes, or the pipeline
    has stood still.
    """

    rate_hz = RATE_HZ

    def __init__(self, overrun: Callable[[str], None]) -> None:
        self._overrun = overrun
        self._hearing = Hearing()
        self._frames: asyncio.Queue[tuple[Samples, int]] = asyncio.Queue(MAX_WAITING)

    async def drain(self, track: MediaStreamTrack) -> None:
        """Take what comes from the track, until it ends."""
        try:
            while True:
                frame = cast(object, await track.recv())  # pyright: ignore[reportUnknownMemberType]
                assert isinstance(frame, AudioFrame)
                if self._frames.full():
                    self._overrun("audio comes faster than it can be taken")
                    return
                pcm = frame.to_ndarray().reshape(-1, frame.layout.nb_channels)
                self._frames.put_nowait((pcm.astype(np.int16, copy=False), frame.pts or 0))
        except MediaStreamError:
            return

    async def take(self) -> tuple[Samples, bool]:
        """The next audio at 16 kHz, maybe none yet; and whether the caller sent it, or silence
        stands in for what it didn't."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(QUIET_S / 2):
                pcm, position = await self._frames.get()
        except TimeoutError:
            silence = self._hearing.tick(loop.time())
            return np.empty(0, np.int16) if silence is None else silence, False
        return self._hearing.push(pcm, position, loop.time()), True
