"""An endpoint fed by hand with windows of audio made of numbers."""

from __future__ import annotations

import numpy as np

from motet.components.frames import Audio, Frame, SpeechStarted, TurnSettings
from motet.components.turn.endpoint import Endpoint
from motet.components.turn.rules import EndpointRules

WINDOW = 512
MS = 32


class Rig:
    """An endpoint fed with windows; samples count up, so that every one can be found again."""

    def __init__(self, rules: EndpointRules | None = None, **settings) -> None:
        self.endpoint = Endpoint(rules, TurnSettings(**settings))
        self.fed = 0
        self.now_s = 100.0
        self.out: list[Frame] = []

    def feed(self, speech: float, windows: int = 1) -> list[Frame]:
        new: list[Frame] = []
        for _ in range(windows):
            pcm = (np.arange(self.fed, self.fed + WINDOW) % 32768).astype(np.int16)
            new += self.endpoint.audio(Audio(pcm, 16_000, self.fed / 16, speech), self.now_s)
            self.fed += WINDOW
            self.now_s += 0.032
        self.out += new
        return new

    def do(self, frames: list[Frame]) -> list[Frame]:
        self.out += frames
        return frames

    def events(self) -> list[Frame]:
        return [frame for frame in self.out if not isinstance(frame, Audio)]

    def audio_of(self, number: int) -> np.ndarray:
        parts, current = [], 0
        for frame in self.out:
            if isinstance(frame, SpeechStarted):
                current = frame.utterance
            elif isinstance(frame, Audio) and current == number:
                parts.append(frame.pcm)
        return np.concatenate(parts)
