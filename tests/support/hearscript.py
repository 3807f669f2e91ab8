"""What a turn detector says to a transcriber, written down, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np

from motet.components.asr.checks import normalized
from motet.components.asr.ct2 import Ct2Asr
from motet.components.base import Context
from motet.components.frames import (
    Audio,
    Frame,
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    Transcript,
)


class Script:
    """Frames of a turn detector, written down one after the other."""

    def __init__(self) -> None:
        self.frames: list[Frame | str] = []
        self.place_ms = 0.0
        self.number = 0

    def start(self) -> Script:
        self.number += 1
        self.frames.append(SpeechStarted(self.number, self.place_ms))
        return self

    def audio(self, pcm: np.ndarray, speech: float = 0.9) -> Script:
        for n in range(0, len(pcm), 512):
            self.frames.append(Audio(pcm[n : n + 512], 16_000, self.place_ms, speech))
            self.place_ms += len(pcm[n : n + 512]) / 16
        return self

    def silence(self, milliseconds: int) -> Script:
        return self.audio(np.zeros(milliseconds * 16, np.int16), 0.0)

    def pause(self) -> Script:
        self.frames.append(SpeechPaused(self.number, self.place_ms))
        return self

    def stop(self, *, dropped: bool = False) -> Script:
        self.frames.append(SpeechStopped(self.number, self.place_ms, dropped=dropped))
        return self

    def then(self, *frames: Frame) -> Script:
        self.frames += frames
        return self

    def idle(self) -> Script:
        """Nothing comes until the engine has done what it was asked."""
        self.frames.append("idle")
        return self

    def forever(self) -> Script:
        """Nothing comes any more, and no end."""
        self.frames.append("forever")
        return self

    def utterance(self, pcm: np.ndarray) -> Script:
        return self.start().silence(200).audio(pcm).silence(160).pause().silence(340).stop()

    async def play(self, asr: Ct2Asr) -> AsyncIterator[Frame]:
        for frame in self.frames:
            await asyncio.sleep(0)
            if isinstance(frame, Frame):
                yield frame
            elif frame == "forever":
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(0.02)
                while asr._running:  # noqa: ASYNC110 (there is no event of it)
                    await asyncio.sleep(0.005)


async def collect(asr: Ct2Asr, script: Script) -> list[Frame]:
    return [frame async for frame in asr.run(script.play(asr), Context())]


def texts(frames: list[Frame], *, final: bool = True) -> list[str]:
    return [
        normalized(frame.text)
        for frame in frames
        if isinstance(frame, Transcript) and frame.final is final
    ]
